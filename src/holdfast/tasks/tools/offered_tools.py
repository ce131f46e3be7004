"""The tools that a call offers, as a part of its generation: `extra_body.tools`, in the form of the chat protocol.

Every provider that knows tools reads them there, so nothing else in a request has to know of tools, and they count in
its fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import ConfigurationError

_TOOLS = "tools"


def with_tools(given: Mapping[str, Any], of_model: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a call with its `tools` in `extra_body`, which is otherwise that of the call or of the model.

    Raises:
        ConfigurationError: one of them cannot be offered, or there are tools in `extra_body` as well.
    """
    # Most calls have none.
    from holdfast.tasks.tools.tool import as_tools  # noqa: PLC0415

    others = {name: value for name, value in given.items() if name != _TOOLS}
    body = others.get("extra_body") or of_model
    tools = as_tools(given[_TOOLS])
    if not tools:
        return others
    if isinstance(body, Mapping) and _TOOLS in body:
        raise ConfigurationError(
            f"generation.extra_body sets {_TOOLS!r}, and the call offers tools.", hint="Remove one of them."
        )
    offered = {_TOOLS: [tool.offer for tool in tools]}
    return {**others, "extra_body": {**body, **offered} if isinstance(body, Mapping) else body}
