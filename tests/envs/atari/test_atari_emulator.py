"""What the emulator's own states leave out: held action, screen, unfinished frames."""

import ale_py
import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs.atari import AtariPart
from plangym_ext.envs.atari.lead import RESET, Lead
from plangym_ext.envs.atari.random_numbers import ConsoleRandom, Twister, seeded_text, twister_of
from plangym_ext.envs.atari.state import StateLayout, generator_text, with_generator
from plangym_ext.errors import DamagedState
from plangym_ext.states.randomness.rng import RNG_BYTES

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def pong():
    ale = ale_py.ALEInterface()
    ale.loadROM(ale_py.roms.get_rom_path("pong"))
    ale.reset_game()
    return ale


def make(game, **options):
    env = ale_py.AtariEnv(game=game, obs_type="ram", frameskip=1, **options)
    return env, AtariPart(env)


def save(part):
    row = bytearray(2 * part.width)
    return bytes(row[: part.capture(memoryview(row), 0, len(row))])


# Bytes of a state ---------------------------------------------------------------------


def test_core_and_text_make_the_state_again(pong):
    data = pong.cloneState().serialize()
    layout = StateLayout(data)
    core, text = layout.split(data)
    assert layout.join(core, text) == data
    assert len(core) < len(data) / 7
    assert len(text.split()) == 625


def test_core_leaves_the_consoles_generator_as_it_is(pong):
    layout = StateLayout(pong.cloneState().serialize())
    core, text = layout.split(pong.cloneState().serialize())
    pong.reset_game()
    other = layout.split(pong.cloneState().serialize())[1]
    assert other != text
    pong.restoreState(ale_py.ALEState(core))
    assert layout.split(pong.cloneState().serialize()) == (core, other)


def test_generator_is_exchanged_within_a_state(pong):
    data = pong.cloneState(include_rng=True).serialize()
    changed = with_generator(data, seeded_text(77))
    assert generator_text(changed) == seeded_text(77)
    assert with_generator(changed, generator_text(data)) == data
    pong.restoreState(ale_py.ALEState(changed))
    assert pong.cloneState(include_rng=True).serialize() == changed


def test_state_of_unknown_layout_is_told():
    with pytest.raises(ValueError, match="System"):
        StateLayout(bytes(1000))


# Generators ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 123, -5, 2**31 - 1])
def test_generator_is_seeded_as_by_the_emulator(seed):
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.loadROM(ale_py.roms.get_rom_path("pong"))
    assert generator_text(ale.cloneState(include_rng=True).serialize()) == seeded_text(seed)


def test_generator_draws_what_numpys_does_and_goes_back():
    twister, same = Twister(seeded_text(3)), twister_of(seeded_text(3))
    assert [twister.draw() for _ in range(700)] == same.random_raw(700).tolist()
    saved = twister.saved()
    after = [twister.draw() for _ in range(700)]
    twister.load(Twister.text(saved))
    assert [twister.draw() for _ in range(700)] == after


@pytest.mark.parametrize("draws", [0, 1, 129, 623, 624, 625, 5000])
def test_consoles_generator_is_named_by_its_draws(draws):
    generator = twister_of(seeded_text(1))
    if draws:
        generator.random_raw(draws)
    key, position = generator.state["state"].values()
    text = " ".join(map(str, [*key.tolist(), position])).encode()
    assert ConsoleRandom(seeded_text(1)).text(draws) == text
    assert ConsoleRandom(seeded_text(1)).draws(text, since=0) == draws


# Leads --------------------------------------------------------------------------------


def test_lead_starts_anew_from_a_state_of_some_age():
    lead = Lead(continuous=True)
    lead.begin(b"start", 7)
    for t in range(100):
        if len(lead.codes) >= lead.due:
            lead.renew(b"%d" % t, 7, full=True)
        lead.add(t % 18, 0.5)
        assert len(lead.codes) <= 36
    # Renewed every 32 frames, each time three frames after the state was kept.
    assert lead.base == b"96"
    assert bytes(lead.codes) == bytes(t % 18 for t in range(96, 100))
    assert lead.last == (99 % 18, 0.5)


def test_lead_waits_for_a_whole_frame():
    lead = Lead(continuous=False)
    lead.begin(b"start", 0)
    for t in range(50):
        if len(lead.codes) >= lead.due:
            lead.renew(b"%d" % t, 0, full=t == 45)
        lead.add(0, 1.0)
    assert lead.base == b"32"


def test_anchored_lead_holds_a_state_from_after_its_start():
    lead = Lead(continuous=False, anchored=True)
    lead.begin(b"start", 0)
    for t in range(20):
        if len(lead.codes) >= lead.due:
            lead.renew(b"%d" % t, 0, full=True)
        lead.add(0, 1.0)
    # Every fourth state is kept and taken three frames later.
    assert (lead.base, lead.anchor, lead.anchor_at) == (b"16", b"19", 3)


def test_lead_is_itself_as_bytes():
    lead, other = (Lead(continuous=True, anchored=True) for _ in range(2))
    lead.begin(b"start", 2**40)
    lead.add(RESET, 1.0)
    lead.generator = b"words"
    lead.add(3, 0.25)
    data = lead.packed()
    assert other.unpack(memoryview(b"??" + data), 2) == 2 + len(data)
    assert other.packed() == data
    assert list(other.frames()) == [(RESET, 1.0), (3, 0.25)]


# Emulators ----------------------------------------------------------------------------


@slow
def test_unfinished_frames_are_restored_by_what_led_to_them():
    # Q*bert begins with two frames in which it computes and shows nothing.
    env, part = make("qbert")
    env.reset(seed=0)
    state = save(part)
    assert env.ale._partial
    played = [(env.step(1)[0].tobytes(), env.ale.getScreen().tobytes()) for _ in range(6)]
    # The emulator by itself goes on as if the frame were finished.
    for _ in range(3):
        part.restore(memoryview(state), 0)
        assert save(part) == state
        assert [(env.step(1)[0].tobytes(), env.ale.getScreen().tobytes()) for _ in range(6)] == (
            played
        )


@slow
def test_unfinished_frame_is_finished_before_another_state_comes():
    env, part = make("qbert")
    env.reset(seed=0)
    unfinished = save(part)
    for _ in range(30):
        env.step(0)
    whole, screen = save(part), env.ale.getScreen().tobytes()
    after = env.step(2)[0].tobytes()
    for _ in range(3):
        part.restore(memoryview(unfinished), 0)
        part.restore(memoryview(whole), 0)
        assert not env.ale._partial
        assert env.ale.getScreen().tobytes() == screen
        assert env.step(2)[0].tobytes() == after


@slow
def test_long_thoughts_of_an_opponent():
    env, part = make("tic_tac_toe_3d", repeat_action_probability=0.0)
    env.reset(seed=0)
    env.action_space.seed(0)
    states, seen = [], []
    for _ in range(110):
        states.append(save(part))
        seen.append((env.ale.getScreen().tobytes(), env.ale._partial))
        env.step(env.action_space.sample())
    assert sum(partial for _, partial in seen) >= 5
    for t in (109, 60, 80, 55, 100, 0):
        part.restore(memoryview(states[t]), 0)
        assert env.ale.getScreen().tobytes() == seen[t][0]
        assert save(part) == states[t]


@slow
def test_screen_is_emulated_only_when_it_is_read(monkeypatch):
    # Serial: batches that run in workers leave the screen of this process as it is.
    with plangym_ext.make("ALE/Pong-v5", render_mode="rgb_array", backend="serial") as env:
        ale = env.gym_env.unwrapped.ale
        emulated = []
        whole = ale._emulate_lead
        monkeypatch.setattr(ale, "_emulate_lead", lambda core: (emulated.append(1), whole(core)))
        state, *_ = env.reset(seed=0)
        for _ in range(30):
            state = env.step(env.sample_action(), state).state
        picture = env.render().copy()
        env.step_batch([2, 3], [state, state])
        assert not emulated
        for _ in range(2):
            np.testing.assert_array_equal(env.render(), picture)
        assert len(emulated) == 1
        assert env.get_state().tobytes() == state.tobytes()


@slow
def test_second_load_of_a_game_leads_to_the_same_as_the_first():
    fresh, _ = make("breakout")
    used, _ = make("breakout")
    for _ in range(200):
        used.step(1)
    for env in (fresh, used):
        env.reset(seed=9)
    for _ in range(50):
        assert fresh.step(3)[0].tobytes() == used.step(3)[0].tobytes()
    assert fresh.ale.getScreenRGB().tobytes() == used.ale.getScreenRGB().tobytes()


@slow
def test_console_altered_from_outside_is_captured_as_it_is():
    env, part = make("montezuma_revenge")
    env.reset(seed=0)
    env.ale.setRAM(65, 2)
    state = save(part)
    env.reset(seed=1)
    part.restore(memoryview(state), 0)
    assert env.ale.getRAM()[65] == 2


@slow
def test_objects_that_a_game_leaves_where_they_are():
    # The shots of Yars' Revenge move on from where they are, and hit what is there.
    env, part = make("yars_revenge")
    env.reset(seed=0)
    env.action_space.seed(0)
    states, played = [], []
    for _ in range(300):
        action = env.action_space.sample()
        states.append(save(part))
        played.append((action, env.step(action)[0].tobytes(), env.ale.getScreen().tobytes()))
    for t in np.random.default_rng(0).permutation(300)[:60]:
        part.restore(memoryview(states[t]), 0)
        assert save(part) == states[t]
        for action, memory, screen in played[t : t + 2]:
            assert env.step(action)[0].tobytes() == memory
            assert env.ale.getScreen().tobytes() == screen


# Forged states ------------------------------------------------------------------------


def test_a_core_that_draws_beyond_the_screen_or_lacks_a_chip_is_refused():
    env, _ = make("pong")
    env.reset(seed=0)
    layout, core = env.ale._layout, env.ale._look()
    layout.check(core)
    for _ in range(20):
        env.step(env.action_space.sample())
        layout.check(env.ale._look())
    video = core.index(b"\x03\0\0\0TIA") + 7
    flag = video + 4 * 19
    changes = [
        (video + 8, (2**31 - 1).to_bytes(4, "little")),  # where drawing stops
        (video + 12, (0).to_bytes(4, "little")),  # how far it is
        (video + 4 * 41, (160).to_bytes(4, "little")),  # the column of a player
        (video + 4 * 45, (-1).to_bytes(4, "little", signed=True)),
        (flag, b"\0\0\0\0"),
        (flag, bytes([core[flag] ^ 0x20])),
        (video - 1, b"B"),
        (78, b"\1"),  # a text of the console's generator
        (24, b"\1"),
        (64, b"\xff\xff\xff\xff"),
    ]
    for at, data in changes:
        with pytest.raises(DamagedState, match="the chips of this game"):
            layout.check(core[:at] + data + core[at + len(data) :])
    for other in (core[:-1], core + b"\0", b""):
        with pytest.raises(DamagedState, match="the chips of this game"):
            layout.check(other)
    other = bytes(x ^ y for x, y in zip(core[flag : flag + 4], b"\x60\x40\x60\x40", strict=True))
    layout.check(core[:flag] + other + core[flag + 4 :])


@pytest.mark.parametrize(
    ("game", "kind", "wrong"),
    [
        ("pong", b"2K", []),
        ("asteroids", b"F8", [(0, 2)]),
        ("double_dunk", b"F6", [(0, 4)]),
        ("darkchambers", b"F6SC", [(0, 4), (1, 129)]),
        ("elevator_action", b"F8SC", [(0, 2), (1, 2**31)]),
        ("montezuma_revenge", b"E0", [(0, 5), (1, 8), (4, 8)]),
        ("pitfall2", b"DPC", [(0, 2), (1, 9), (10, 7), (19, 9), (20, 2048), (28, 9), (37, 4)]),
    ],
)
def test_lists_and_places_beyond_the_memory_of_a_chip_are_refused(game, kind, wrong):
    env, _ = make(game)
    env.reset(seed=0)
    layout, core = env.ale._layout, env.ale._look()
    for _ in range(50):
        env.step(env.action_space.sample())
        layout.check(env.ale._look())
    memory, cartridge = core.index(b"M6532") + 5, core.index(b"Cartridge" + kind) + 9 + len(kind)
    for at, value in [(memory, 129), *((cartridge + 4 * k, value) for k, value in wrong)]:
        with pytest.raises(DamagedState, match="the chips of this game"):
            layout.check(core[:at] + value.to_bytes(4, "little") + core[at + 4 :])


def test_a_generator_beyond_its_words_and_one_of_billions_of_draws_are_refused():
    env, part = make("pong", repeat_action_probability=0.25)
    env.reset(seed=0)
    state = save(part)
    position = RNG_BYTES + 624 * 4
    assert int.from_bytes(state[position : position + 4], "little") <= 624
    for at, data in ((position, b"\x71\2\0\0"), (position + 4, b"\xff" * 8)):
        forged = bytearray(state)
        forged[at : at + len(data)] = data
        with pytest.raises(DamagedState, match=r"a generator must|generator was drawn from"):
            part.restore(memoryview(forged), 0)
    part.restore(memoryview(state), 0)
