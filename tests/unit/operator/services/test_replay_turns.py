"""The turns of replays: a namespace with many replays advances a few in each round."""

from hookwright_operator.services.replays import ReplayTurns
from hookwright_operator.store.records import Choice, Replay, ReplayState, State


def replay(number: int, endpoint: str) -> Replay:
    """Build a running replay; its endpoint has the name of its namespace."""
    return Replay(f"rec_{number:02}", endpoint, ReplayState.RUNNING, Choice((State.FAILED,)), 0, 0, 0, 0, 0)


def test_each_replay_of_a_namespace_gets_its_turn_and_others_advance_in_each_round() -> None:
    """With 5 replays and 2 in a round, three rounds advance each once; a small namespace advances every time."""
    running = [*(replay(number, "large") for number in range(5)), replay(7, "small")]
    turns = ReplayTurns(2)
    rounds = [turns.choose(running, lambda one: one.endpoint_uid) for _ in range(3)]
    assert [[one.id for one in chosen["small"]] for chosen in rounds] == [["rec_07"]] * 3
    assert [[one.id for one in chosen["large"]] for chosen in rounds] == [
        ["rec_00", "rec_01"],
        ["rec_02", "rec_03"],
        ["rec_04", "rec_00"],
    ]


def test_a_replay_that_has_ended_takes_no_turn() -> None:
    """The next round begins after the last one, whether or not it still runs."""
    running = [replay(number, "large") for number in range(4)]
    turns = ReplayTurns(2)
    turns.choose(running, lambda one: one.endpoint_uid)
    choice = turns.choose([running[0], running[3]], lambda one: one.endpoint_uid)
    assert [one.id for one in choice["large"]] == ["rec_03", "rec_00"]
    assert turns.choose([], lambda one: one.endpoint_uid) == {}


def test_a_replay_that_is_left_out_takes_no_turn_until_its_endpoint_is_sendable() -> None:
    """Its namespace gives the turn to the next replay; afterwards it takes turns as before."""
    running = [replay(number, "large") for number in range(3)]
    turns = ReplayTurns(2)

    def chosen(*sendable: str) -> list[str]:
        replays = turns.choose(running, lambda one: one.endpoint_uid, lambda one: one.id in sendable)
        return [one.id for one in replays.get("large", [])]

    assert chosen() == ["rec_00", "rec_01"]
    turns.leave_out("rec_00")
    assert chosen() == ["rec_02", "rec_01"]
    assert chosen() == ["rec_02", "rec_01"]
    assert chosen("rec_00") == ["rec_02", "rec_00"]
    assert chosen() == ["rec_01", "rec_02"]
    for one in running:
        turns.leave_out(one.id)
    assert chosen() == []
