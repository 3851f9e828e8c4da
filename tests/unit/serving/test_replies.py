from kvgate.serving.replies import Ending, Replies

CHAT = Replies("chatcmpl-1", "pico", 5, chat=True)


def test_a_chat_begins_with_who_speaks() -> None:
    first = CHAT.first()
    assert first is not None
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert Replies("cmpl-1", "pico", 5).first() is None


def test_a_part_of_a_chat_and_all_of_it() -> None:
    part = CHAT.piece("ab", None)["choices"][0]
    assert part == {
        "index": 0,
        "delta": {"content": "ab"},
        "logprobs": None,
        "finish_reason": None,
    }
    whole = CHAT.whole("ab", [1], Ending("stop", "c"))
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "ab"},
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": "c",
        "token_ids": [1],
    }
