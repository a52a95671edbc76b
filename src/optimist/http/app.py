"""The OpenAI-compatible HTTP face of one engine, as a starlette app that can be mounted anywhere."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from optimist.http.answers import Answer
from optimist.http.bodies import Body, ChatBody, CompletionBody, DetokenizeBody, TokenizeBody
from optimist.http.decode import decode
from optimist.http.gateway_service import GatewayService
from optimist.http.metrics import CONTENT_TYPE, Metrics
from optimist.http.requests import Job, chat_job, completion_job, turns
from optimist.http.service import Service
from optimist.http.shapes import Head, error_body, error_headers, to_json
from optimist.messages.errors import InvalidRequest, Problem, ProblemError

if TYPE_CHECKING:
    from optimist.engine import Engine

MAX_BODY = 4 * 2**20
"""bytes of a request's body; a longer one is answered with 413"""
AT_ONCE = 2**16
"""bytes of a body that is read on the loop; a longer one is read in a thread"""

B = TypeVar("B", bound=Body)


class _Refusal(HTTPException):
    """A refusal outside the engine's own errors: a status, and what the error object says."""

    def __init__(self, status: int, message: str, code: str, param: str | None = None) -> None:
        super().__init__(status, message)
        self.code = code
        self.param = param


def create_app(service: Service) -> Starlette:
    """The app for one engine. It owns nothing: closing the engine is its owner's business."""
    face = _Face(service)
    return Starlette(
        routes=[
            Route("/v1/completions", face.completions, methods=["POST"]),
            Route("/v1/chat/completions", face.chat, methods=["POST"]),
            Route("/v1/models", face.models, methods=["GET"]),
            Route("/v1/models/{model:path}", face.model, methods=["GET"]),
            Route("/tokenize", face.tokenize, methods=["POST"]),
            Route("/detokenize", face.detokenize, methods=["POST"]),
            Route("/health", face.health, methods=["GET"]),
            Route("/ready", face.ready, methods=["GET"]),
            Route("/metrics", face.metrics, methods=["GET"]),
        ],
        exception_handlers={
            ProblemError: _problem,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )


def engine_app(engine: Engine) -> Starlette:
    """The app for an Engine, to be mounted in an application that starts and closes the engine."""
    return create_app(GatewayService(lambda: engine.gateway))


class _Face:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._metrics = Metrics(service)
        self._since = int(time.time())

    async def completions(self, request: Request) -> ASGIApp:
        head = self._head("cmpl", "text_completion")
        return await self._answer(request, head, CompletionBody, completion_job)

    async def chat(self, request: Request) -> ASGIApp:
        head = self._head("chatcmpl", "chat.completion")
        return await self._answer(request, head, ChatBody, chat_job)

    async def _answer(
        self, request: Request, head: Head, kind: type[B], job: Callable[[B, str], Job]
    ) -> Answer:
        observe = self._metrics.observer(head.kind)
        try:
            body = await self._body(request, kind)
            return Answer(self._service, job(body, head.id), head, observe)
        except ProblemError as error:
            observe(error.status)
            raise
        except HTTPException as error:
            observe(error.status_code)
            raise

    async def models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["model"])
        return _json(self._model())

    async def tokenize(self, request: Request) -> Response:
        body = await self._body(request, TokenizeBody)
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequest("prompt: expected exactly one of prompt, messages", field="prompt")
        if body.messages is None:
            ids = list(await self._service.encode(body.prompt or ""))
        else:
            ids = list(await self._service.encode_chat(turns(body.messages)))
        limit = self._service.max_model_len
        return _json({"tokens": ids, "count": len(ids), "max_model_len": limit})

    async def detokenize(self, request: Request) -> Response:
        body = await self._body(request, DetokenizeBody)
        return _json({"prompt": self._service.decode(body.tokens, field="tokens")})

    async def health(self, request: Request) -> Response:
        health = self._service.health()
        return _json({"status": health.reason or "ok"}, 200 if health.healthy else 503)

    async def ready(self, request: Request) -> Response:
        ready = self._service.health().accepting
        return _json({"ready": ready}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE})

    async def _body(self, request: Request, kind: type[B]) -> B:
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise _Refusal(415, "expected content-type: application/json", "unsupported_media_type")
        content = await _content(request)
        if len(content) > AT_ONCE:
            body = await anyio.to_thread.run_sync(decode, kind, content)
        else:
            body = decode(kind, content)
        self._check_model(getattr(body, "model", None))
        return body

    def _check_model(self, name: str | None) -> None:
        served = self._service.model_name
        if name is not None and name != served:
            raise _Refusal(
                404,
                f"model: {name!r} is not served here, {served!r} is",
                "model_not_found",
                "model",
            )

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._service.model_name,
            "object": "model",
            "created": self._since,
            "owned_by": "optimist",
            "max_model_len": self._service.max_model_len,
        }

    def _head(self, prefix: str, kind: str) -> Head:
        name = f"{prefix}-{uuid.uuid4().hex}"
        return Head(name, kind, int(time.time()), self._service.model_name)


async def _content(request: Request) -> bytes:
    """The body, refused as soon as it is too long."""
    content = bytearray()
    async with contextlib.aclosing(request.stream()) as pieces:
        async for piece in pieces:
            content += piece
            if len(content) > MAX_BODY:
                raise _Refusal(413, f"expected at most {MAX_BODY} bytes", "body_too_large")
    return bytes(content)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, headers, media_type="application/json")


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return _json(error_body(error.problem), error.status, error_headers(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, param = getattr(error, "code", "http_error"), getattr(error, "param", None)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    message = error.detail
    if not isinstance(error, _Refusal):
        allowed = f"; {error.headers['Allow']} is there" if error.headers else ""
        message = f"{request.method} {request.url.path}: {message.lower()}{allowed}"
    body = {"message": message, "type": kind, "param": param, "code": code}
    return _json({"error": body}, error.status_code, dict(error.headers or {}))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


async def _unexpected(request: Request, error: Exception) -> Response:
    problem = Problem(code="request_failed", message=f"unexpected {type(error).__name__}")
    return _json(error_body(problem), 500)
