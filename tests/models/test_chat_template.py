"""Chat templates: what they may use, and what they may not do."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizer_files as files

from optimist.messages.errors import InvalidRequest, ModelError, RequestFailed
from optimist.models.chat_template import MAX_TEMPLATE, ChatTemplate
from optimist.models.tokenizer import load_tokenizer

USER = [{"role": "user", "content": "Hi"}]


def render(source: str, messages: list[dict[str, str]] | None = None) -> str:
    return ChatTemplate(source).render(USER if messages is None else messages)


def test_messages_and_the_generation_prompt_reach_the_template() -> None:
    source = (
        "{% for message in messages %}\n"
        "    {{ message['role'] }}: {{ message.content }}|\n"
        "{% endfor %}\n"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    assert render(source) == "    user: Hi|\nassistant:"
    assert ChatTemplate(source).render(USER, add_generation_prompt=False) == "    user: Hi|\n"


def test_variables_of_the_model_and_of_the_call_reach_the_template() -> None:
    template = ChatTemplate("{{ bos_token }}{{ mood }}{{ absent }}", {"bos_token": "<s>"})
    assert template.render(USER, mood="calm") == "<s>calm"


def test_what_templates_in_the_wild_use() -> None:
    assert render("{{ {'a': 'ü<'} | tojson }}") == '{"a": "ü<"}'
    assert render("{{ {'a': 1} | tojson(indent=1) }}") == '{\n "a": 1\n}'
    assert (
        render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}")
        == "01"
    )
    assert render("{% generation %}{{ messages[0].content }}{% endgeneration %}") == "Hi"
    assert render("{% set n = namespace(x=1) %}{% set n.x = 2 %}{{ n.x }}") == "2"
    assert render("{% if tools is none and documents is none %}no{% endif %}") == "no"
    assert render("{{ messages | map(attribute='role') | join(', ') }}") == "user"
    assert render("{{ messages | join('+', attribute='content') }}") == "Hi"
    assert render("{{ ' a-b '.strip().split('-')[-1].replace('b', 'c') | upper }}") == "C"
    assert render("{{ ', '.join(['a', 'b']) ~ 1 ~ none }}") == "a, b1None"
    assert render("{{ 'aaa' | replace('a', 'b', 2) }}{{ '%s!' | format('x') }}") == "bbax!"
    assert render("{{ '{}-{:>3}'.format('a', 'b') }}") == "a-  b"
    assert (
        render("{% for k, v in {'a': [1, (2, 3)]}.items() %}{{ k }}{{ v[1] }}{% endfor %}")
        == "a(2, 3)"
    )
    assert render("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{{ m(2) }}") == "[1][2]"
    assert render("{% for m in messages if m.role == 'user' %}{{ loop.index }}{% endfor %}") == "1"
    assert render("{{ messages[::-1][0].content[:1] + 'x' * 3 }}{{ 2 ** 3 + 7 % 4 }}") == "Hxxx11"


def test_the_date_is_todays() -> None:
    before = time.strftime("%Y-%m-%d")
    shown = render("{{ strftime_now('%Y-%m-%d') }}")
    assert before <= shown <= time.strftime("%Y-%m-%d")


def test_what_a_template_raises_is_the_request_s_fault_in_its_own_words() -> None:
    source = (
        "{% if messages[0].role == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
    )
    with pytest.raises(InvalidRequest, match="refuses them: System role not supported") as caught:
        render(source, [{"role": "system", "content": ""}])
    assert caught.value.problem.field == "messages"
    assert render(source) == ""


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[7].content.x }}",
        "{{ 1 // 0 }}",
        "{{ [] | first + 1 }}",
    ],
)
def test_messages_that_a_template_cannot_use_are_refused(source: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot render them"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for %}",
        "{{",
        "{% if x %}",
        "{{ x | nofilter }}",
        "{{ " + "(" * 5000,
        "{% include 'x' %}{{",
    ],
)
def test_a_template_that_is_not_jinja_is_refused_when_compiled(source: str) -> None:
    with pytest.raises(ModelError, match=r"^chat template: .*expected valid Jinja"):
        ChatTemplate(source)


def test_a_template_that_is_too_long_is_refused() -> None:
    with pytest.raises(ModelError, match=f"at most {MAX_TEMPLATE} characters"):
        ChatTemplate("x" * (MAX_TEMPLATE + 1))


def attacks(marker: Path) -> list[str]:
    write = f"open({str(marker)!r}, 'w').write('x')"
    run = f"__import__('os').system('touch {marker}')"
    return [
        f"{{{{ ''.__class__.__mro__[1].__subclasses__() }}}}{{{{ {write} }}}}",
        f"{{% for c in [].__class__.__base__.__subclasses__() %}}{{{{ c({write!r}) }}}}{{% endfor %}}",
        f"{{{{ cycler.__init__.__globals__.os.system('touch {marker}') }}}}",
        f"{{{{ joiner.__init__.__globals__['os'].system('touch {marker}') }}}}",
        f"{{{{ namespace.__init__.__globals__.os.system('touch {marker}') }}}}",
        f"{{{{ raise_exception.__globals__['__builtins__']['eval']({run!r}) }}}}",
        f"{{{{ strftime_now.__globals__['__builtins__']['exec']({run!r}) }}}}",
        f"{{{{ self.__init__.__globals__.__builtins__.exec({run!r}) }}}}",
        f"{{{{ self._TemplateReference__context.environment.from_string({run!r}) }}}}",
        f"{{{{ ''['__class__']['__mro__'] }}}}{{{{ {write} }}}}",
        f"{{{{ ('' | attr('__class__')).__mro__ }}}}{{{{ {write} }}}}",
        f"{{{{ '{{0.__class__.__mro__}}'.format('') }}}}{{{{ {write} }}}}",
        f"{{{{ messages | map(attribute='__class__.__mro__') | list }}}}{{{{ {write} }}}}",
        f"{{{{ (messages | map('attr', '__class__') | list)[0].__mro__ }}}}{{{{ {write} }}}}",
        f"{{% set f = render.__func__ %}}{{{{ f({write!r}) }}}}{{{{ {write} }}}}",
    ]


@pytest.mark.parametrize("number", range(15))
@pytest.mark.parametrize("format_", ["gguf", "huggingface"])
def test_a_template_that_reaches_out_of_its_data_does_nothing(
    number: int, format_: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    template = attacks(marker)[number]
    tokenizer = load_tokenizer(files.write_byte_level(tmp_path, format_, template))
    with pytest.raises((RequestFailed, InvalidRequest)) as caught:
        tokenizer.encode_chat(USER)
    assert "chat template" in str(caught.value)
    assert not marker.exists()


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ messages[0].clear() }}",
        "{% set messages[0].role = 'x' %}{{ messages.pop() }}",
    ],
)
def test_messages_cannot_be_changed_by_a_template(source: str) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises((RequestFailed, InvalidRequest, ModelError)):
        render(source, messages)
    assert messages == USER


@pytest.mark.parametrize(
    "source", ["{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% extends 'x' %}"]
)
def test_a_template_has_no_files(source: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot render them"):
        render(source)


def test_one_template_serves_several_threads() -> None:
    template = ChatTemplate("{% for i in range(2000) %}{% endfor %}{{ messages[0].content }}")
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda n: template.render([{"role": "user", "content": str(n)}]), range(16))
        )
    assert found == [str(number) for number in range(16)]


def test_a_model_without_template_says_so(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(files.write_byte_level(tmp_path, "gguf"))
    with pytest.raises(InvalidRequest, match="this model has no chat template"):
        tokenizer.encode_chat(USER)


def test_a_model_with_a_broken_template_still_takes_prompts(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(files.write_byte_level(tmp_path, "gguf", "{% for %}"))
    assert tokenizer.decode(tokenizer.encode("the")) == "the"
    with pytest.raises(RequestFailed, match="chat template: line 1"):
        tokenizer.encode_chat(USER)
