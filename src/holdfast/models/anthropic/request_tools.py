"""Tools in a request: those in the form of the chat protocol are rewritten, so that one solver serves both APIs."""

from __future__ import annotations

from typing import Any

_NO_PARAMETERS = {"type": "object", "properties": {}}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def rewrite_tools(body: dict[str, Any]) -> dict[str, Any]:
    """The same members of a request with `tools`, `tool_choice` and `parallel_tool_calls` as the Messages API has them.

    What is in the form of the Messages API already is kept as it is.
    """
    rewritten = dict(body)
    if isinstance(body.get("tools"), list):
        rewritten["tools"] = [_tool(tool) for tool in body["tools"]]
    if "tool_choice" in body:
        rewritten["tool_choice"] = _choice(body["tool_choice"])
    parallel = rewritten.pop("parallel_tool_calls", None)
    if parallel is False:
        choice = rewritten.get("tool_choice", {"type": "auto"})
        rewritten["tool_choice"] = {**choice, "disable_parallel_tool_use": True} if isinstance(choice, dict) else choice
    return rewritten


def _tool(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
    if not isinstance(function, dict):
        return tool
    kept = {name: function[name] for name in ("name", "description", "strict") if function.get(name) is not None}
    return {**kept, "input_schema": function.get("parameters") or _NO_PARAMETERS}


def _choice(choice: Any) -> Any:
    if isinstance(choice, str) and choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    return {"type": "tool", "name": function.get("name")} if isinstance(function, dict) else choice
