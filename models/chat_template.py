"""Chat templates: Jinja from a model file, run in a sandbox within limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError

from optimist.messages.errors import InvalidRequest, ModelError, RequestFailed
from optimist.models.template_limits import Budget, BudgetSpent, join_texts
from optimist.models.template_sandbox import LimitedEnvironment

MAX_TEMPLATE = 512 * 1024
"""characters of a template; real ones have a tenth of it at most"""


class Refused(TemplateError):
    """What a template raises by `raise_exception`."""


class ChatTemplate:
    """A compiled template. Compiling runs nothing of it.

    The template sees the messages, its variables and the helpers of Hugging Face templates
    (`raise_exception`, `strftime_now`, `tojson`, loop controls, `generation` blocks) and nothing
    else: no attribute that leads out of the data, no change of the messages, no files. How long it
    may run and how much it may write is limited, see template_limits.

    Raises ModelError when it is too long or not valid Jinja.
    """

    def __init__(self, source: str, variables: Mapping[str, str] | None = None) -> None:
        if len(source) > MAX_TEMPLATE:
            raise ModelError(
                f"chat template: expected at most {MAX_TEMPLATE} characters, got {len(source)}"
            )
        self._variables = dict(variables or {})
        environment = LimitedEnvironment({"tojson": _to_json})
        environment.globals.update(raise_exception=_refuse, strftime_now=_now)
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ModelError(
                f"chat template: line {error.lineno}: {error.message}, expected valid Jinja"
            ) from None
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ModelError(f"chat template: expected valid Jinja, got {error!r}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        **variables: object,
    ) -> str:
        """The prompt of a conversation. variables: more of what this template may name.

        Raises InvalidRequest when the template refuses the conversation or cannot use it, and
        RequestFailed when it does what no template may do.
        """
        context: dict[str, object] = {"tools": None, "documents": None}
        context |= self._variables
        context |= variables
        context |= {"messages": messages, "add_generation_prompt": add_generation_prompt}
        try:
            with Budget():
                return join_texts("", self._template.generate(context))
        except SecurityError as error:
            raise RequestFailed(f"the model's chat template was stopped: {error}") from None
        except BudgetSpent as error:
            raise InvalidRequest(
                f"messages: the chat template went beyond its limits: {error}", field="messages"
            ) from None
        except Refused as error:
            raise InvalidRequest(
                f"messages: the chat template refuses them: {error}", field="messages"
            ) from None
        except Exception as error:  # noqa: BLE001  its expressions can raise anything
            raise InvalidRequest(
                f"messages: the chat template cannot render them: {error}", field="messages"
            ) from None


def _refuse(message: object) -> NoReturn:
    raise Refused(str(message)[:1000])


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
