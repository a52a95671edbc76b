"""Client protocol, version 1: what travels between a client and the gateway.

A request is named by the client and belongs to its connection. `index` numbers its tokens.
"""

from __future__ import annotations

import msgspec

from optimist.messages.base import Message
from optimist.messages.errors import Problem
from optimist.messages.params import SamplingParams
from optimist.messages.requests import FinishReason

PROTOCOL_VERSION = 1


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: str
    content: str


class Alternative(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token that could have been chosen. token: its text, lossy where it is not valid UTF-8."""

    id: int
    token: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chosen token with its natural log probability and the likeliest alternatives, best first."""

    id: int
    token: str
    logprob: float
    top: tuple[Alternative, ...] = ()


class PromptToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token of the prompt, how likely it was behind those before it, and what was likelier.

    logprob: natural log probability; None for the first, before which there is nothing.
    """

    id: int
    token: str
    logprob: float | None
    top: tuple[Alternative, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of a request. cached_tokens: prompt tokens that came from the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class ClientHello(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Client to gateway, first on every connection. version: of this protocol."""

    version: int
    client: str = ""


class ServerHello(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client, in answer to ClientHello. versions: those the gateway speaks."""

    version: int
    versions: tuple[int, ...]
    server: str
    model: str
    max_model_len: int
    vocab_size: int


class Generate(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Client to gateway: continue a prompt.

    request: named by the client, unique among its live ones, 1 to 128 characters.
    Exactly one of prompt, prompt_ids and messages is given. want_text: False skips detokenising;
    then `stop` strings are refused. deadline_ms: from receipt. resume_key: chosen by the client;
    who knows it may Resume.
    """

    request: str
    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    messages: tuple[ChatMessage, ...] | None = None
    params: SamplingParams = SamplingParams()
    want_text: bool = True
    priority: int = 0
    deadline_ms: int | None = None
    cache_salt: str = ""
    resume_key: str = ""
    trace: str = ""


class CancelRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Client to gateway: end this request. Finished or Failed still follows."""

    request: str


class Resume(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Client to gateway, on a new connection: go on with a request from this token index."""

    request: str
    resume_key: str
    next_index: int = 0


class StatsRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Client to gateway: how busy are you?"""


class Ping(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Client to gateway: are you there? nonce: returned in Pong."""

    nonce: int = 0


class Delta(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client: more of a request.

    choice: which of its n continuations. index: number of the first token in token_ids.
    text: what can be shown now; it may lag behind token_ids by an unfinished character.
    """

    request: str
    choice: int = 0
    index: int
    token_ids: tuple[int, ...]
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] | None = None


class PromptLogprobs(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client that asked: the next tokens of the prompt, all before the first Delta with tokens."""

    request: str
    choice: int = 0
    tokens: tuple[PromptToken, ...]


class Finished(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client: this continuation is complete. text: the last of it, after every Delta."""

    request: str
    choice: int = 0
    finish_reason: FinishReason
    stop: str | int | None = None
    text: str = ""
    usage: Usage
    seed: int


class Failed(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client: the request was refused or failed. request is "" for a bad message."""

    request: str
    problem: Problem


class Stats(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client, in answer to StatsRequest."""

    waiting: int
    running: int
    free_blocks: int
    num_blocks: int
    steps: int
    healthy: bool


class Pong(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to client, in answer to Ping."""

    nonce: int


ClientMessage = ClientHello | Generate | CancelRequest | Resume | StatsRequest | Ping
ServerMessage = ServerHello | PromptLogprobs | Delta | Finished | Failed | Stats | Pong
