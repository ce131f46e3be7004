"""What Inspect accepts as a sample: the types of its fields, as far as a reader of Inspect's checks them.

One field of a wrong type makes Inspect refuse the whole log, so nothing is written before it was compared with this.
A newer version of Inspect may have more kinds of events, parts and reasons than are known here: in a log of such a
version they are accepted as they are. `make interop` compares the table with Inspect itself.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from holdfast.interop.importing.foreign_values import LongInteger, number_of

KNOWN_VERSION = (0, 3, 285)
"""The version of inspect-ai whose samples this table describes."""
_ANSWERS = {
    "limit_type": "context time working message token turn cost operator custom",
    "event_limit_type": "message time working token turn cost operator custom",
    "stop_reason": "stop max_tokens model_length tool_calls content_filter unknown",
    "tool_choice_word": "auto any none",
    "assistant_role": "assistant",
    "source": "input generate operator",
    "cache": "read write",
    "decision": "approve modify reject escalate terminate",
    "review": "continue terminate escalate",
    "action": "exec read_file write_file",
    "step": "begin end",
    "compaction_type": "summary edit trim",
    "format": "text markdown",
    "level": "debug trace http sandbox info warning error critical",
    "tool_type": "web_search mcp_call code_execution",
    "call_type": "function custom",
    "detail": "auto low high original",
    "audio_format": "wav mp3",
    "video_format": "mp4 mpeg mov",
    "change": "remove add replace move test copy",
    "tool_error_type": "parsing timeout unicode_decode permission file_not_found is_a_directory limit approval"
    " cancelled sandbox_unavailable unknown output_limit",
}
_MESSAGE = "!content:text|[part] id:text|null source:source|null metadata:map|null"
_EVENT = "uuid:text|null span_id:text|null timestamp:stamp working_start:number metadata:map|null pending:flag|null"
_USE = "input_tokens:integer output_tokens:integer total_tokens:integer input_tokens_cache_write:integer|null"
_SCORE = "answer:text|null explanation:text|null reason:text|null metadata:map|null history:[map]"
_SCORE_VALUE = "text|number|flag|[text|number|flag]|{text|number|flag|null}"
_CONFIG_INTEGERS = (
    "max_retries timeout attempt_timeout stream_idle_timeout max_connections max_tokens best_of seed top_k num_choices"
    " top_logprobs prompt_logprobs max_tool_output reasoning_tokens"
)
_CONFIG_NUMBERS = "top_p temperature frequency_penalty presence_penalty"
_CONFIG_FLAGS = "logprobs parallel_tool_calls internal_tools fail_on_refusal"
_CONFIG_OTHERS = (
    "adaptive_connections cache_prompt verbosity effort reasoning_effort reasoning_mode reasoning_summary"
    " reasoning_history modalities cache batch"
)
_CLOSED = {"config"}
"""Objects that may have no other fields."""
_OBJECTS = {
    "sample": "!id:integer|text !epoch:integer !input:text|[message] choices:[text]|null !target:text|[text]"
    " description:text|null sandbox:any files:[text]|null setup:text|null messages:[message] output:output"
    " scores:{score}|null metadata:map store:map events:[event] timelines:[any]|null model_usage:{usage}"
    " role_usage:{usage} model_fallbacks:[fallback]|null started_at:time|null completed_at:time|null"
    " total_time:number|null working_time:number|null uuid:text|null invalidation:map|null error:error|null"
    " error_retries:[error]|null attachments:{text} events_data:events_data|null limit:limit|null"
    " turn_count:integer|null token_limit:integer|null token_limit_type:text|null token_limit_usage:integer|null"
    " message_limit:integer|null time_limit:integer|null",
    "summary": "!id:integer|text !epoch:integer !input:text|[message] !target:text|[text] choices:[text]|null"
    " metadata:map scores:{score}|null model_usage:{usage} role_usage:{usage} started_at:time|null"
    " completed_at:time|null total_time:number|null working_time:number|null uuid:text|null error:text|null"
    " limit:text|null retries:integer|null completed:flag message_count:integer|null turn_count:integer|null",
    "output": "model:text choices:[choice] completion:text usage:usage|null time:number|null metadata:map|null"
    " error:text|null fallback:fallback|null input_context_tokens:integer|null response_id:text|null",
    "choice": "!message:assistant stop_reason:stop_reason stop_details:map|null logprobs:map|null",
    "usage": f"{_USE} input_tokens_cache_read:integer|null reasoning_tokens:integer|null total_cost:number|null",
    "fallback": "!model:text !fallback_model:text count:integer metadata:map|null",
    "score": f"!value:{_SCORE_VALUE} {_SCORE}",
    "event_score": f"value:{_SCORE_VALUE}|null {_SCORE}",
    "error": "!message:text !traceback:text !traceback_ansi:text",
    "limit": "!type:limit_type !limit:number reason:text|null",
    "events_data": "!messages:[message] !calls:[any]",
    "assistant": f"role:assistant_role {_MESSAGE} tool_calls:[tool_call]|null model:text|null",
    "tool_call": "!id:text !function:text !arguments:map parse_error:text|null view:tool_view|null type:call_type",
    "tool_view": "title:text|null !format:format content:text",
    "tool_error": "!type:tool_error_type !message:text",
    "tool_info": "!name:text !description:text parameters:map options:map|null",
    "function": "!name:text",
    "call": "!request:map response:map|null error:flag|null time:number|null call_refs:[pair]|null call_key:text|null",
    "origin": "!input:text|[message] choices:[text]|null target:text|[text] id:integer|text|null metadata:map|null"
    " files:{text}|null setup:text|null description:text|null",
    "change_of": "!op:change !path:text from:text|null",
    "config": " ".join(
        [
            *(f"{name}:integer|null" for name in _CONFIG_INTEGERS.split()),
            *(f"{name}:number|null" for name in _CONFIG_NUMBERS.split()),
            *(f"{name}:flag|null" for name in _CONFIG_FLAGS.split()),
            *(f"{name}:any" for name in _CONFIG_OTHERS.split()),
            "system_message:text|null stop_seqs:[text]|null logit_bias:map|null extra_headers:{text}|null",
            "extra_body:map|null fallback_models:[text]|null response_schema:map|null",
        ]
    ),
    "log_line": "!level:level !message:text !created:number name:text|null filename:text module:text lineno:integer",
}
_KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "message": (
        "role",
        {
            "system": _MESSAGE,
            "user": f"{_MESSAGE} tool_call_id:[text]|null",
            "assistant": _OBJECTS["assistant"],
            "tool": f"{_MESSAGE} tool_call_id:text|null function:text|null error:tool_error|null",
        },
    ),
    "part": (
        "type",
        {
            "text": "!text:text refusal:flag|null citations:[map]|null",
            "reasoning": "!reasoning:text summary:text|null signature:text|null redacted:flag",
            "image": "!image:text detail:detail",
            "audio": "!audio:text !format:audio_format",
            "video": "!video:text !format:video_format",
            "data": "!data:map",
            "document": "!document:text filename:text mime_type:text citations:flag",
            "tool_use": "!tool_type:tool_type !id:text !name:text !arguments:text !result:text context:text|null"
            " error:text|null",
        },
    ),
    "event": (
        "event",
        {
            "model": "!model:text !input:[message] !tools:[tool_info] !tool_choice:tool_choice_word|function"
            " !config:config !output:output role:text|null input_refs:[pair]|null retries:integer|null error:text|null"
            " cache:cache|null call:call|null completed:stamp|null working_time:number|null traceback:text|null"
            " traceback_ansi:text|null",
            "tool": "!id:text !function:text !arguments:map view:tool_view|null truncated:any error:tool_error|null"
            " result:text|number|flag|part|[part] events:[any] completed:stamp|null working_time:number|null"
            " agent:text|null failed:flag|null message_id:text|null agent_span_id:text|null",
            "sample_init": "!sample:origin",
            "sample_limit": "!type:event_limit_type !message:text limit:number|null",
            "sandbox": "!action:action cmd:text|null options:map|null file:text|null input:text|null"
            " result:integer|null output:text|null completed:stamp|null",
            "state": "!changes:[change_of]",
            "store": "!changes:[change_of]",
            "score": "!score:event_score target:text|[text]|null intermediate:flag scorer:text|null"
            " model_usage:{usage}|null role_usage:{usage}|null scorer_args:map|null",
            "score_edit": "!score_name:text !edit:map",
            "error": "!error:error",
            "info": "!data:any source:text|null",
            "input": "!input:text !input_ansi:text message:text|null",
            "logger": "!message:log_line",
            "approval": "!message:text !call:tool_call !approver:text !decision:decision explanation:text|null"
            " modified:tool_call|null view:map|null",
            "review": "!message:text !call:tool_call !reviewer:text !decision:review explanation:text|null",
            "span_begin": "!id:text !name:text parent_id:text|null type:text|null",
            "span_end": "!id:text",
            "step": "!action:step !name:text type:text|null",
            "subtask": "!name:text !input:map type:text|null events:[any] completed:stamp|null"
            " working_time:number|null",
            "compaction": "type:compaction_type role:text|null tokens_before:integer|null tokens_after:integer|null"
            " source:text|null",
            "anchor": "!anchor_id:text source:text|null",
            "branch": "from_anchor:text",
            "checkpoint": "",
            "interrupt": "",
            "sentinel": "",
        },
    ),
}
_SPLIT = re.compile(r"[^|\[\]{}]+|\[[^\]]*\]|\{[^}]*\}")


def faults_in(value: Any, shape: str, *, is_newer: bool = False) -> list[str]:
    """The places in a sample or a summary that Inspect would refuse, at most a few of them."""
    return [place for place, _ in zip(_faults(value, shape, "", is_newer), range(5), strict=False)]


def readable_parts(value: dict[str, Any], shape: str, *, is_newer: bool = False) -> dict[str, Any]:
    """The fields of a sample or a summary that Inspect reads, of lists and maps the items that it reads."""
    fields = _fields(_OBJECTS[shape])
    return {
        name: kept
        for name, item in value.items()
        if (kept := _readable(item, fields.get(name, ("any", False))[0], is_newer)) is not _NOTHING
    }


_NOTHING: Any = object()


def _readable(value: Any, shape: str, is_newer: bool) -> Any:  # noqa: FBT001 - passed on
    if _fits(value, shape, is_newer):
        return value
    for option in _options(shape):
        if option[0] == "[" and isinstance(value, list):
            return [item for item in value if _fits(item, option[1:-1], is_newer)]
        if option[0] == "{" and isinstance(value, dict):
            return {name: item for name, item in value.items() if _fits(item, option[1:-1], is_newer)}
    return _NOTHING


def _fits(value: Any, shape: str, is_newer: bool) -> bool:  # noqa: FBT001 - passed on
    return next(_faults(value, shape, "", is_newer), None) is None


def _faults(value: Any, shape: str, place: str, is_newer: bool) -> Iterator[str]:  # noqa: FBT001 - passed on
    """Every place that fits none of the options of a shape; of one option, the places within it."""
    options = _options(shape)
    if len(options) > 1:
        found = [list(_faults(value, option, place, is_newer)) for option in options]
        if all(found):
            yield min(found, key=len)[0] if isinstance(value, list | dict) else place
        return
    option = options[0]
    if option[0] == "[" or option[0] == "{":
        yield from _item_faults(value, option, place, is_newer)
    elif option in _CHECKS:
        yield from () if _CHECKS[option](value) else (place,)
    elif option in _ANSWERS:
        is_known = isinstance(value, str) and (is_newer or value in _ANSWERS[option].split())
        yield from () if is_known else (place,)
    else:
        yield from _object_faults(value, option, place, is_newer)


def _item_faults(value: Any, option: str, place: str, is_newer: bool) -> Iterator[str]:  # noqa: FBT001 - passed on
    inner = option[1:-1]
    if option[0] == "[" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _faults(item, inner, f"{place}[{number}]", is_newer)
    elif option[0] == "{" and isinstance(value, dict):
        for name, item in value.items():
            yield from _faults(item, inner, f"{place}.{name}", is_newer)
    else:
        yield place


def _object_faults(value: Any, name: str, place: str, is_newer: bool) -> Iterator[str]:  # noqa: FBT001 - passed on
    if not isinstance(value, dict):
        yield place
        return
    if name in _KINDS:
        tag, kinds = _KINDS[name]
        kind = value.get(tag)
        if not isinstance(kind, str) or kind not in kinds:
            yield from () if is_newer and isinstance(kind, str) else (f"{place}.{tag}",)
            return
        fields = _fields(f"{kinds[kind]} {_EVENT if name == 'event' else ''}")
    else:
        fields = _fields(_OBJECTS[name])
    if name in _CLOSED and not is_newer:
        yield from (f"{place}.{field}" for field in value if field not in fields)
    for field, (shape, is_required) in fields.items():
        if field in value:
            yield from _faults(value[field], shape, f"{place}.{field}".lstrip("."), is_newer)
        elif is_required:
            yield f"{place}.{field}".lstrip(".")


@lru_cache(256)
def _fields(text: str) -> dict[str, tuple[str, bool]]:
    """By name, the shape of a field and whether it is required."""
    pairs = (item.partition(":") for item in text.split())
    return {name.removeprefix("!"): (shape, name.startswith("!")) for name, _, shape in pairs}


@lru_cache(1024)
def _options(shape: str) -> list[str]:
    return _SPLIT.findall(shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or number_of(value) is not None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and dt.datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_integer, value))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: not isinstance(value, LongInteger),
    "null": lambda value: value is None,
    "map": lambda value: isinstance(value, dict),
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "flag": lambda value: isinstance(value, bool),
    "time": _is_time,
    "stamp": lambda value: _is_time(value) or (_is_number(value) and not isinstance(value, bool)),
    "pair": _is_pair,
}
