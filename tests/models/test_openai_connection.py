"""Connections: broken, slow, refused, cancelled, reused. Raw servers send what no HTTP library would."""

import asyncio
import contextlib
import json
import re
import socket
import struct

import pytest
from aiohttp import web
from chat_server import QUESTION, answering, ask_once, ask_raw, chat_server, completion, opened, raw_server

from holdfast.errors import UsageError
from holdfast.models import Message, ModelError, Rejected, Request, Unavailable, open_provider
from holdfast.spec import ModelSpec, Timeouts

BODY = json.dumps(completion()).encode()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([], "closed the connection without an answer"),
        ([b"HTTP/1.1 200"], "closed the connection without an answer|not HTTP"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "not HTTP"),
        ([b"\x00\x01\x02\x03" * 100], "not HTTP"),
        ([b"HTTP/1.1 banana\r\n\r\n"], "not HTTP"),
        ([OK + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n"], "not HTTP"),
        ([OK + b"Content-Length: banana\r\n\r\n"], "not HTTP"),
        ([OK + b"Content-Length: 4000\r\n\r\n" + BODY], "broke off its answer half-way"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n"], "broke off its answer|not HTTP"),
        ([OK + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"cho\r\nzzz\r\n'], "broke off its answer|not HTTP"),
        ([OK + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"cho\r\n'], "broke off its answer half-way"),
        ([OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"], "broke off its answer half-way|not HTTP"),
        ([OK + b"\r\n" + BODY[:-20]], "not JSON, or not all of it"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], "an empty body"),
    ],
)
def test_a_broken_answer_is_unavailable(pieces, words):
    """Whatever breaks below the protocol is one clear sentence, and the request may be made again."""
    with pytest.raises(Unavailable, match=words) as caught:
        ask_raw(pieces)
    assert str(caught.value).startswith("openai/tiny ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("sent_before", [b"", OK + b"Content-Length: 4000\r\n\r\n{"])
def test_a_reset_connection_is_unavailable(sent_before):
    """A connection that the other side tears down is told as lost, and the request may be made again."""

    async def go():
        async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(sent_before)
            await asyncio.sleep(0.05)
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.close()

        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            await ask_once(ModelSpec(provider="openai", model="tiny", base_url=url))

    with pytest.raises(Unavailable, match=r"lost the connection|broke off its answer"):
        asyncio.run(go())


def test_an_answer_without_length_is_read_to_its_end():
    """An old server that ends its answer by closing the connection is understood."""
    assert ask_raw([OK + b"\r\n" + BODY]).text == "Paris"


def test_an_answer_in_many_small_pieces_is_read():
    """An answer that trickles in is put together."""
    head = OK + b"Content-Length: %d\r\n\r\n" % len(BODY)
    pieces = [head[:20], head[20:], *(BODY[start : start + 50] for start in range(0, len(BODY), 50))]
    assert ask_raw(pieces, pause=0.001).text == "Paris"


def test_a_server_that_is_not_there_is_unavailable():
    """A refused connection names the address, and says so."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"

        async def go():
            async with raw_server([]) as seen:
                seen.base_url = f"http://{address}/v1"
                await ask_once(seen.spec())

        with pytest.raises(Unavailable, match=f"cannot be reached at {address} .*refused"):
            asyncio.run(go())


def test_a_host_that_does_not_exist_is_unavailable(monkeypatch):
    """A name that does not resolve is told apart from a server that refuses."""

    def unknown(*_name, **_hints):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    async def go():
        await ask_once(ModelSpec(provider="openai", model="tiny", base_url="http://holdfast.invalid/v1"))

    with pytest.raises(Unavailable, match=r"the host name holdfast\.invalid does not resolve"):
        asyncio.run(go())


def test_an_address_that_only_the_network_refuses_is_rejected():
    """A host that turns out to be none when it is called is not called again."""
    with pytest.raises(Rejected, match="openai/tiny has no valid address"):
        asyncio.run(ask_once(ModelSpec(provider="openai", model="tiny", base_url="http://1.2.3.4.5/v1")))


def test_a_plain_server_behind_https_is_rejected_with_the_right_address():
    """Waiting changes nothing: the address is wrong, and it is not a matter of certificates."""

    async def go():
        async with chat_server(answering(completion())) as seen:
            seen.base_url = seen.base_url.replace("http:", "https:")
            await ask_once(seen.spec())

    with pytest.raises(Rejected, match=r"openai/tiny at 127\.0\.0\.1:\d+ speaks http, not https\.") as caught:
        asyncio.run(go())
    assert re.fullmatch(r"models\.NAME\.base_url=http://127\.0\.0\.1:\d+/v1", caught.value.setting)


def test_a_silent_server_ends_with_the_read_timeout():
    """A server that takes the request and says nothing is given up after the read timeout."""
    with pytest.raises(Unavailable, match=r"sent nothing for 0.1 s.*timeouts.read"):
        ask_raw([], hold=True, timeouts=Timeouts(read=0.1))


def test_a_server_that_falls_silent_half_way_ends_with_the_read_timeout():
    """Silence within a body counts as silence."""
    with pytest.raises(Unavailable, match=r"sent nothing for 0.1 s"):
        ask_raw([OK + b"Content-Length: 4000\r\n\r\n{"], hold=True, timeouts=Timeouts(read=0.1))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", OK + b"Content-Length: 100000\r\n\r\n"])
def test_a_server_that_drips_ends_with_the_total_timeout(head):
    """A byte now and then does not keep a request alive beyond its total time."""
    drip = [head, *[b"x"] * 100]
    with pytest.raises(Unavailable, match=r"had not finished its answer after 1 s.*timeouts.total"):
        ask_raw(drip, pause=0.05, timeouts=Timeouts(read=10.0, total=1.0))


def test_an_address_that_swallows_connections_ends_with_the_connect_timeout():
    """Where no connection comes about, the connect timeout ends the wait."""
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())

        async def go():
            async with raw_server([]) as seen:
                seen.base_url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
                await ask_once(seen.spec(timeouts=Timeouts(connect=0.2)))

        with pytest.raises(Unavailable, match=r"could not be reached at 127.0.0.1:\d+ within 0.2 s"):
            asyncio.run(go())


@pytest.mark.parametrize("prepared", [False, True])
def test_cancelling_closes_the_connection(prepared):
    """The server sees a cancelled request end, before its answer or in the middle of it."""

    async def go():
        arrived, gone = asyncio.Event(), asyncio.Event()

        async def never(request: web.Request) -> web.StreamResponse:
            try:
                if prepared:
                    response = web.StreamResponse()
                    await response.prepare(request)
                    await response.write(b'{"choices": ')
                arrived.set()
                await asyncio.Event().wait()
            finally:
                gone.set()

        async with chat_server(never) as seen, opened(seen.spec()) as provider:
            task = asyncio.create_task(provider.send(QUESTION))
            await arrived.wait()
            await asyncio.sleep(0.02 if prepared else 0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The provider is still open: nothing but the cancellation can have ended the connection.
            await asyncio.wait_for(gone.wait(), 20)

    asyncio.run(go())


def test_cancelling_while_a_large_prompt_is_being_sent_closes_the_connection():
    """A server that does not read loses the connection too."""

    async def go():
        lost = asyncio.Event()

        class Deaf(asyncio.Protocol):
            def connection_made(self, transport):
                transport.pause_reading()
                asyncio.get_running_loop().call_later(0.3, transport.resume_reading)

            def connection_lost(self, _error):
                lost.set()

        server = await asyncio.get_running_loop().create_server(Deaf, "127.0.0.1", 0)
        async with server, raw_server([]) as seen:
            seen.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            async with opened(seen.spec()) as provider:
                large = Request((Message("user", "x" * 50_000_000),))
                task = asyncio.create_task(provider.send(large))
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(lost.wait(), 20)

    asyncio.run(go())


def test_the_pool_works_on_after_cancellations_and_errors():
    """A cancelled or failed request leaves nothing behind that a later one could read."""

    async def go():
        async def sometimes(request: web.Request) -> web.StreamResponse:
            word = json.loads(await request.read())["messages"][0]["content"]
            if word.startswith("slow"):
                await asyncio.sleep(30)
            if word.startswith("bad"):
                return web.Response(status=500, text="x" * 100_000)
            return web.json_response(completion(word))

        async with chat_server(sometimes) as seen, opened(seen.spec()) as provider:

            async def send(word: str) -> str:
                try:
                    return (await provider.send(Request((Message("user", word),)))).text
                except Unavailable:
                    return "unavailable"

            tasks = [asyncio.create_task(send(f"{kind} {n}")) for n in range(20) for kind in ("slow", "bad", "good")]
            await asyncio.sleep(0.3)
            for task in tasks[::3]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            later = await asyncio.gather(*(send(f"good {n}") for n in range(60)))
            return [task.result() for task in tasks[1::3]], [task.result() for task in tasks[2::3]], later

    bad, good, later = asyncio.run(go())
    assert set(bad) == {"unavailable"}
    assert good == [f"good {n}" for n in range(20)]
    assert later == [f"good {n}" for n in range(60)]


def test_all_requests_are_under_way_at_once():
    """The provider sets no limit of its own: that is the engine's business."""

    async def go():
        waiting = 0
        everybody = asyncio.Event()

        async def together(_request: web.Request) -> web.StreamResponse:
            nonlocal waiting
            waiting += 1
            if waiting == 150:
                everybody.set()
            await everybody.wait()
            return web.json_response(completion())

        async with chat_server(together) as seen, opened(seen.spec()) as provider:
            replies = await asyncio.gather(*(provider.send(QUESTION) for _ in range(150)))
            return len(replies)

    assert asyncio.run(go()) == 150


def test_one_connection_serves_many_requests():
    """Requests one after another share a connection."""

    async def go():
        peers = set()

        async def answer(request: web.Request) -> web.StreamResponse:
            peers.add(request.transport.get_extra_info("peername"))
            return web.json_response(completion())

        async with chat_server(answer) as seen, opened(seen.spec()) as provider:
            for _ in range(10):
                await provider.send(QUESTION)
        return len(peers)

    assert asyncio.run(go()) == 1


def test_requests_go_through_the_proxy():
    """With a proxy, the proxy sees the whole address and the server is not contacted."""

    async def go():
        async with chat_server(answering(completion("from the proxy"))) as proxy:
            address = proxy.base_url.removesuffix("/v1")
            proxy.base_url = "http://models.invalid/v1"
            reply = await ask_once(proxy.spec(proxy=address))
            return reply.text, proxy.headers[0]["Host"]

    assert asyncio.run(go()) == ("from the proxy", "models.invalid")


@pytest.mark.parametrize(
    ("pieces", "kind", "words"),
    [
        ([b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"], Rejected, "the proxy answered 407"),
        ([b"HTTP/1.1 502 Bad Gateway\r\n\r\n"], Unavailable, "the proxy answered 502"),
    ],
)
def test_a_proxy_that_refuses_is_named(pieces, kind, words):
    """A tunnel that the proxy does not open is told apart from a server's refusal."""

    async def go():
        async with raw_server(pieces) as proxy:
            address = proxy.base_url.removesuffix("/v1")
            proxy.base_url = "https://models.invalid/v1"
            await ask_once(proxy.spec(proxy=address))

    with pytest.raises(ModelError, match=words) as caught:
        asyncio.run(go())
    assert type(caught.value) is kind


def test_a_proxy_that_is_not_there_is_named():
    """No connection to the proxy is told apart from no connection to the server."""

    async def go():
        async with raw_server([]) as seen:
            await ask_once(seen.spec(proxy="http://127.0.0.1:1"))

    with pytest.raises(Unavailable, match=r"no connection to the proxy 127\.0\.0\.1:1"):
        asyncio.run(go())


def test_closing_ends_what_is_under_way():
    """A request that is under way when the provider closes ends with an error, not with a hang."""

    async def go():
        async with raw_server([], hold=True) as seen:
            provider = open_provider(seen.spec())
            task = asyncio.create_task(provider.send(QUESTION))
            await seen.arrived.wait()
            await provider.close()
            with pytest.raises(Unavailable):
                await asyncio.wait_for(task, 20)
            await provider.close()
            with pytest.raises(UsageError, match="closed"):
                await provider.send(QUESTION)

    asyncio.run(go())
