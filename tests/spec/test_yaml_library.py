"""PyYAML is loaded without its slowest pattern, and works as ever for whoever else uses it in the process."""

from __future__ import annotations

import re
import subprocess
import sys

_PURE_LOADER = """
import re, threading
compiled = re.compile
from holdfast.spec.loading.yaml_document import read_document
import yaml
assert re.compile is compiled, "re is as it was"
pattern = yaml.reader.Reader.NON_PRINTABLE
assert not isinstance(pattern, re.Pattern), "compiling it is what was to be spared"
print(read_document("a: 1", "x.yaml"), yaml.load("b: [1, 2.5, yes, 2026-11-18, x]", Loader=yaml.SafeLoader))
print(yaml.safe_dump({"a": ["yes", "1", 1, "x"]}, default_flow_style=True).strip())
try:
    yaml.load("c: \\x07", Loader=yaml.SafeLoader)
except yaml.reader.ReaderError as error:
    print(error.reason)
"""


def test_the_loader_in_python_still_finds_unprintable_characters():
    found = subprocess.run([sys.executable, "-c", _PURE_LOADER], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "{'a': 1} {'b': [1, 2.5, True, datetime.date(2026, 11, 18), 'x']}",
        "{a: ['yes', '1', 1, x]}",
        "special characters are not allowed",
    ]


def test_a_process_that_has_loaded_yaml_before_keeps_its_patterns():
    program = "import re, yaml, holdfast.spec.loading.yaml_document; print(type(yaml.reader.Reader.NON_PRINTABLE))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(re.Pattern)
