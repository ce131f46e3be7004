"""Experiments 4, 5, 6, 18, 23: signals to the process and to its group, over an experiment with agents and judges."""

from __future__ import annotations

import random

import pytest
from signalled_experiment import SignalledExperiment


def signal_experiment(holdfast, directory, signals):
    experiment = SignalledExperiment(holdfast, directory, random.SystemRandom().randrange(2**32))
    experiment.run_whole()
    experiment.signal_runs(signals)
    return experiment


def test_experiments_5_six_signals_change_nothing_but_the_time(holdfast, tmp_path):
    """The grid is complete, agents that finished are paid once, judges are asked the same, and nothing is left."""
    signal_experiment(holdfast, tmp_path, 6)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_experiments_5_two_hundred_signals_change_nothing_but_the_time(holdfast, tmp_path):
    """The same for longer: INT, TERM and KILL, at any moment of any stage."""
    experiment = signal_experiment(holdfast, tmp_path, 200)
    assert len(experiment.sent) == 6 and experiment.cut_off > 20
