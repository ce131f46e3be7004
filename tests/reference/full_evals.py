"""Evals that between them use every block, scorer, requirement and provider; and what loading says about an eval."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.provider import read_options
from holdfast.models.scripted.provider import open_scripted
from holdfast.reference.provider_options import OPTIONS
from holdfast.sampling.requirements.registry import build_requirement
from holdfast.spec import EvalSpec, ModelSpec, TaskSpec, resolve, typed_eval
from holdfast.tasks.from_spec import build_task
from holdfast.tasks.scorers.registry import build_scorer

SETTINGS = """
name: settings
description: Every key that is no model, dataset or task.
tags: [a, b]
seed: 7
deterministic: true
directory: /evals
concurrency_limit: 64
concurrency_limits: {solve: 32}
retry_deadline: 30m
progress_interval: 500ms
runner:
  concurrency_limits: {score: 8}
  max_retries: 0
  grace_period: 0
  durability: remote
  upload_interval: 30
  show_progress: false
models: {small: scripted/echo}
datasets: {rows: rows.jsonl}
tasks:
  ask: {dataset: rows, scorers: exact, concurrency_limit: 4, max_retries: 1, runner: {retry_deadline: 1h30m}}
"""
ASKING = """
datasets: {rows: rows.csv}
tasks: {ask: {dataset: rows, scorers: [exact]}}
"""
OPENAI = """
models:
  full:
    provider: openai
    model: gpt-4o-mini
    base_url: http://127.0.0.1:8000/v1
    api_key_env: OPENAI_API_KEY
    concurrency_limit: 64
    rate_limit: {requests_per_minute: 600, tokens_per_minute: 200000}
    generation:
      temperature: 0.0
      top_p: 0.9
      max_tokens: 64
      stop: [END]
      seed: 3
      logprobs: true
      top_logprobs: 5
      presence_penalty: -1
      frequency_penalty: 0.5
      extra_body: {reasoning: {effort: low}}
    price: {input: 0.15, output: 0.6}
    timeouts: {connect: 5, read: 2m, total: 30m}
    proxy: http://127.0.0.1:3128
    headers: {X-Team: evals}
    args: {max_reply_bytes: 1000, max_tokens_field: max_tokens, reasoning_field: reasoning, api_version: "1"}
"""
PROVIDERS = """
models:
  short: openai/gpt-4o-mini
  named: {model: openrouter/some/model}
  derived: {base: short, model: gpt-4o}
  weights: {provider: local, model: smollm2, args: {slots: 2, context: 512, threads: 2, start_seconds: 60.5}}
"""
SCRIPT = """
models:
  script:
    provider: scripted
    model: table
    args:
      replies: {two: "2", three: [a, b], four: {text: "4", finish: stop, reasoning: r}}
      rules: [{contains: France, reply: Paris}, {matches: "^a", exact: b, reply: [{refusal: no}]}]
      turns: [draft, {text: better, tool_calls: [{name: search, arguments: {q: x}, id: c}]}]
      default: I do not know.
      latency: {seconds: 0.1, jitter: 0.1, seed: 1}
      errors:
        - {contains: Spain, rate_limited: {times: 2, retry_after: 0.1, status: 429, message: m}}
        - {share: 0.1, unavailable: {}}
"""
DATASETS = """
models: {small: scripted/echo}
datasets:
  rows:
    path: rows.txt
    format: jsonl
    fields: {input: question, target: answer, id: number, choices: options}
    operations:
      - filter: {field: a.b, equals: 3}
      - filter: {field: a, in: [1, x, null]}
      - filter: {field: a, matches: "^x"}
      - shuffle: {seed: 42}
      - repeat: {times: 2}
      - slice: {start: 1, num: 1000}
tasks: {ask: {dataset: rows, scorers: [exact]}}
"""
DECLARATIVE = """
models: {small: scripted/echo}
datasets: {rows: rows.csv}
tasks:
  many:
    dataset: rows
    limit: 10
    models: small
    prompt: {plain: "{input}", polite: "Please: {input}"}
    system: Be brief.
    few_shot: [{input: a, output: b}]
    few_shot_template: "{input}: {output}"
    choices: ["{a}", "{b}"]
    target: "{answer}"
    sample_ids: [a, b]
    epochs: 2
    scorers: [exact]
    limits: {time: 2m, tokens: 4000, cost: 0.05}
"""
SCORERS = """
models: {small: scripted/echo}
datasets: {rows: rows.csv}
tasks:
  scored:
    dataset: rows
    scorers:
      - exact: {ignore_case: true, ignore_punctuation: true, name: loose}
      - includes: {ignore_case: true}
      - regex: {pattern: "(a)", group: 1, match: last, ignore_case: true, compare: false}
      - numeric: {absolute: 0.1, relative: 0.1, decimal: ","}
      - choice
  listed: {dataset: rows, prompt: ["{input}", "{input}?"], choices: options, scorers: [choice]}
  python: {use: "task.py:twice", args: {n: 3}, scorers: [exact], epochs: 2}
"""
REQUIREMENTS = """
models: {small: scripted/echo, judge: scripted/echo}
datasets: {rows: rows.jsonl}
tasks:
  rejection:
    dataset: rows
    scorers: [exact]
    sampling:
      strategy: rejection
      requirements:
        - python
        - regex: "^a"
        - regex: {pattern: a, full: true, ignore_case: true, id: r, description: d, check_only: true}
        - json_schema: {schema: {type: object}}
        - length: {min: 1, max: 10, unit: words}
        - includes: [a, b]
        - includes: {text: a, ignore_case: true}
        - numeric: {min: 0, max: 10.5, whole: true, decimal: "."}
        - judge: {model: judge, criterion: c, threshold: 0.5, scored: true}
"""
STRATEGIES = """
models:
  small: {provider: scripted, model: echo, price: {input: 1, output: 2}}
  judge: {base: small}
  large: {base: small}
datasets: {rows: rows.jsonl}
tasks:
  rejection:
    dataset: rows
    scorers: [exact]
    sampling:
      strategy: rejection
      loop_budget: 3
      concurrency_budget: 2
      selection: best
      short_circuit: true
      budget: {calls: 3, tokens: 100, cost: 0.1, time: 1m}
      requirements: [python]
  vote:
    dataset: rows
    scorers: [exact]
    sampling: {strategy: vote, concurrency_budget: 3, vote: similarity, extract: "(a)"}
  best:
    dataset: rows
    scorers: [exact]
    sampling: {strategy: best_of_n, concurrency_budget: 3, scorer: {judge: {model: judge, criterion: c, scored: true}}}
  escalate: {dataset: rows, scorers: [exact], sampling: {strategy: escalate, loop_budget: 3, escalate_to: [large]}}
"""
AGENTS = """
models: {agent: {provider: command, model: a}}
datasets: {rows: rows.jsonl}
tasks:
  shop:
    dataset: rows
    prompt: "{input}"
    scorers: [exact]
    agent:
      command: [agent.sh, "{prompt_file}", "{model}"]
      resume_command: "agent.sh {session}"
      output: json
      answer: both
      exit_codes: [0, 2]
      env: [LANG]
      wrap: [nice]
      sandbox: bubblewrap
      network: false
      limits: {memory: 4294967296, processes: 256, cpu: 60, file_size: 1000000, output: 1000}
      tries: 5
      grace: 10
    workspace: {repo: ../shop, commit: 4b825dc, files: {T.md: t.md}, setup: make, checks: [make test], keep: always}
    axes: {tier: {T0: {files: {CLAUDE.md: t0.md}}, T1: null}}
"""
GRIDS = """
models: {small: scripted/echo}
datasets: {rows: rows.jsonl}
tasks:
  grid:
    dataset: rows
    prompt: "{input}"
    scorers: [exact]
    axes:
      tier:
        T0: null
        T1: {prompt: "Well: {input}", system: Be brief., model: small}
        T2: {best_of: [T0, T1], scorer: exact}
      part: [a, b]
    include: [{tier: T0}, {tier: T1, part: a}]
    exclude: [{tier: T0, part: b}]
  coded: {dataset: rows, solver: "solver.py:solve", scorers: [exact], axes: {n: {one: {args: {n: 1}}, two: {}}}}
  tools: {dataset: rows, prompt: "{input}", tools: ["tools.py:search"], max_iterations: 3, scorers: [exact]}
"""
FULL_EVALS = {
    "settings": SETTINGS,
    "openai": OPENAI + ASKING,
    "providers": PROVIDERS + ASKING,
    "script": SCRIPT + ASKING,
    "datasets": DATASETS,
    "declarative": DECLARATIVE,
    "scorers": SCORERS,
    "requirements": REQUIREMENTS,
    "strategies": STRATEGIES,
    "agents": AGENTS,
    "grids": GRIDS,
}


def refusal(data: Any) -> str:
    """What loading, resolving and opening say against an eval; nothing where it can be run."""
    try:
        spec = resolve(typed_eval(data))
        for model in spec.models.values():
            _check_model(model)
        for name, task in spec.tasks.items():
            _check_task(name, task, spec)
    except ConfigurationError as error:
        return str(error)
    return ""


def _check_model(model: ModelSpec) -> None:
    if model.provider == "scripted":
        open_scripted(model)
    elif model.provider in OPTIONS:
        read_options("args", model.args, OPTIONS[model.provider])


def _check_task(name: str, task: TaskSpec, spec: EvalSpec) -> None:
    # Whether code of the user's is there, structure does not tell.
    known = [
        scorer for scorer in task.scorers if ":" not in next(iter([scorer] if isinstance(scorer, str) else scorer))
    ]
    if task.dataset is not None:
        stand_in = known if len(known) == len(task.scorers) else [*known, "exact"]
        codeless = msgspec.structs.replace(task, scorers=stand_in, solver=None, tools=[])
        build_task(name, codeless, spec.datasets[task.dataset])
    for scorer in known:
        build_scorer(scorer)
    for at, check in task.sampling.checks() if task.sampling else ():
        build_requirement(check, at)
