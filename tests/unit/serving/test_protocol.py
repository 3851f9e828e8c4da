import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.serving.config import ModelConfig
from kvgate.serving.protocol import ApiError, CompletionRequest, parse_request
from kvgate.serving.replies import Replies, event


def parse(pico: ModelConfig, **fields: object) -> CompletionRequest:
    return parse_request(json.dumps({"prompt": "ab"} | fields).encode(), pico, "pico")


def test_defaults(pico: ModelConfig) -> None:
    assert parse(pico) == CompletionRequest(
        prompt=(97, 98),
        max_tokens=16,
        stream=False,
        include_usage=False,
        token_ids=False,
        logits_digest=False,
    )


def test_everything_asked_for(pico: ModelConfig) -> None:
    asked = parse(
        pico,
        prompt=[1, 2],
        max_tokens=3,
        temperature=0.0,
        stream=True,
        seed=4,
        stream_options={"include_usage": True},
        return_token_ids=True,
        kvgate_logits=True,
        ignore_eos=True,
        model="pico",
        stop=None,
    )
    assert asked == CompletionRequest(
        prompt=(1, 2),
        max_tokens=3,
        stream=True,
        include_usage=True,
        token_ids=True,
        logits_digest=True,
    )


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"model": "gpt"}, 404, "'gpt' does not exist"),
        ({"prompt": None}, 400, "neither a text nor"),
        ({"prompt": ""}, 400, "empty"),
        ({"prompt": [1, -1]}, 400, "from 0 to 511"),
        ({"prompt": [512]}, 400, "from 0 to 511"),
        ({"prompt": [True]}, 400, "neither"),
        ({"prompt": ["a", "b"]}, 400, "neither"),
        ({"max_tokens": 0}, 400, "above 0"),
        ({"max_tokens": 1.5}, 400, "above 0"),
        ({"max_tokens": 2000}, 400, "maximum context length is 1024"),
        ({"temperature": 0.7}, 400, "greedily"),
        ({"n": 2}, 400, "n = 2"),
        ({"stop": [""]}, 400, "stop is neither"),
        ({"stop": list("abcde")}, 400, "at most 4"),
        ({"stop_token_ids": ["a"]}, 400, "stop_token_ids"),
        ({"stop": "x", "min_tokens": 3}, 400, "min_tokens together"),
        ({"min_tokens": 17}, 400, "min_tokens"),
        ({"cache_salt": ""}, 400, "cache_salt"),
        ({"temperature": float("nan")}, 400, "NaN is no number"),
        ({"temperature": -1}, 400, "greedily"),
        ({"max_tokens": -5}, 400, "above 0"),
        ({"prompt": [1, "a"]}, 400, "neither"),
        ({"prompt": "\ud800"}, 400, "surrogate"),
        ({"logprobs": 0}, 400, "logprobs"),
        ({"tools": [{}]}, 400, "tools"),
        ({"stream": "yes"}, 400, "neither true nor false"),
        ({"stream_options": 3}, 400, "stream_options"),
    ],
)
def test_what_cannot_be_served_is_refused(pico, fields, status, says) -> None:
    with pytest.raises(ApiError, match=says) as caught:
        parse(pico, **fields)
    assert caught.value.status == status
    assert json.loads(caught.value.body())["error"]["code"] == status


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_understood(pico: ModelConfig, body: bytes) -> None:
    with pytest.raises(ApiError):
        parse_request(body, pico, "pico")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "model",
        "prompt",
        "max_tokens",
        "temperature",
        "stream",
        "n",
        "stop",
        "stream_options",
        "kvgate_logits",
        "logprobs",
    ]
)


@given(st.dictionaries(NAMES, JSON))
def test_any_fields_are_refused_or_understood(pico: ModelConfig, fields: dict) -> None:
    try:
        asked = parse_request(json.dumps(fields).encode(), pico, "pico")
    except ApiError:
        return
    assert len(asked.prompt) + asked.max_tokens <= pico.max_tokens


def test_replies_are_openai_s() -> None:
    replies = Replies("cmpl-1", "pico", 5)
    assert event(replies.piece("a", [97])) == (
        b'data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"pico",'
        b'"choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null,"token_ids":[97]}]'
        b"}\n\n"
    )
    last = replies.usage(4, 2, 3)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 2,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
