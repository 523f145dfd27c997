"""Games as plain Python plays them: sets and dicts, written apart from the kernels' rules."""

from __future__ import annotations

import itertools

import numpy as np


class PlainBoard:
    """What games for two players have in common: stones in a dict, by (row, column)."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = list(itertools.product(range(rows), range(columns)))
        self.board, self.stones, self.player, self.over = set(self.cells), {}, 0, False

    def grown(self, begin, keeps, steps):
        """The cells that are reached from some by steps to cells that are kept."""
        found, waiting = set(begin), list(begin)
        while waiting:
            row, column = waiting.pop()
            for down, right in steps:
                cell = row + down, column + right
                if cell in self.board and cell not in found and keeps(cell):
                    found.add(cell)
                    waiting.append(cell)
        return found

    def plane(self, owner):
        return [
            [self.stones.get((r, c)) == owner for c in range(self.columns)]
            for r in range(self.rows)
        ]

    def side(self):
        return np.full((self.rows, self.columns), self.player)

    def mask(self):
        return [not self.over and self.legal(action) for action in range(self.actions)]

    def legal(self, action):
        return self.cells[action] not in self.stones


class PlainLines(PlainBoard):
    def __init__(self, rows, columns, length, gravity=False):
        super().__init__(rows, columns)
        self.length, self.gravity = length, gravity
        self.actions = columns if gravity else rows * columns

    def legal(self, action):
        return (0, action) not in self.stones if self.gravity else super().legal(action)

    def step(self, action):
        player = self.player
        if not self.legal(action):
            self.over = True
            return -1.0
        cell = self.cells[action]
        if self.gravity:
            cell = max(cell for cell in self.cells if cell[1] == action and cell not in self.stones)
        self.stones[cell], self.player = player, 1 - player
        won = any(
            all(
                self.stones.get((r + k * down, c + k * right)) == player for k in range(self.length)
            )
            for r, c in self.cells
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        )
        self.over = won or len(self.stones) == len(self.cells)
        return float(won)

    def obs(self):
        return [self.plane(self.player), self.plane(1 - self.player)]


class PlainHex(PlainBoard):
    STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1))

    def __init__(self, rows, columns):
        super().__init__(rows, columns)
        self.actions = rows * columns

    def step(self, action):
        player = self.player
        if not self.legal(action):
            self.over = True
            return -1.0
        self.stones[self.cells[action]], self.player = player, 1 - player
        mine = {cell for cell, owner in self.stones.items() if owner == player}
        begin = {cell for cell in mine if cell[player] == 0}
        far = (self.rows, self.columns)[player] - 1
        reached = self.grown(begin, mine.__contains__, self.STEPS)
        self.over = any(cell[player] == far for cell in reached)
        return float(self.over)

    def obs(self):
        return [self.plane(self.player), self.plane(1 - self.player), self.side()]


class PlainGo(PlainBoard):
    """Simple ko as it is written: a stone may not bring back the board of two moves ago."""

    STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def __init__(self, size, komi, max_moves):
        super().__init__(size, size)
        self.komi, self.max_moves, self.actions = komi, max_moves, size**2 + 1
        self.before, self.moves, self.passes = [None, None], 0, 0

    def placed(self, cell):
        """The board after a stone, None if it would have no liberty."""
        stones = {**self.stones, cell: self.player}
        for owner in (1 - self.player, self.player):
            dead = set()
            for row, column in [cell, *((cell[0] + d, cell[1] + r) for d, r in self.STEPS)]:
                if stones.get((row, column)) == owner:
                    chain = self.grown(
                        {(row, column)},
                        lambda at, who=owner, on=stones: on.get(at) == who,
                        self.STEPS,
                    )
                    beside = {(r + d, c + e) for r, c in chain for d, e in self.STEPS}
                    if not any(at in self.board and at not in stones for at in beside):
                        dead |= chain
            if owner == self.player and dead:
                return None
            stones = {at: who for at, who in stones.items() if at not in dead}
        return stones

    def legal(self, action):
        if action == len(self.cells):
            return True
        cell = self.cells[action]
        if cell in self.stones or self.is_forbidden(cell):
            return False
        beside = {(cell[0] + down, cell[1] + right) for down, right in self.STEPS} & self.board
        return not beside <= self.stones.keys() or self.placed(cell) is not None

    def step(self, action):
        player, passes = self.player, action == len(self.cells)
        legal = self.legal(action)
        after = self.stones if passes or not legal else self.placed(self.cells[action])
        self.player, self.moves = 1 - player, self.moves + 1
        if not legal:
            self.over, self.before = True, [None, None]
            return -1.0
        self.before = [self.stones, after]
        self.stones, self.passes = after, self.passes + 1 if passes else 0
        if self.passes < 2 and self.moves < self.max_moves:
            return 0.0
        self.over = True
        lead = sum((1, -1)[owner] for owner in map(self.owner, self.cells) if owner is not None)
        return float(np.sign((lead - self.komi) * (1, -1)[player]))

    def owner(self, cell):
        """Whose a point is at the end, None if no player's."""
        if cell in self.stones:
            return self.stones[cell]
        region = self.grown({cell}, lambda at: at not in self.stones, self.STEPS)
        beside = {(r + d, c + e) for r, c in region for d, e in self.STEPS}
        owners = {self.stones[at] for at in beside if at in self.stones}
        return owners.pop() if len(owners) == 1 else None

    def obs(self):
        ko = [self.is_forbidden(cell) for cell in self.cells]
        ko = np.reshape(ko, (self.rows, self.columns))
        return [self.plane(self.player), self.plane(1 - self.player), self.side(), ko]

    def is_forbidden(self, cell):
        was_mine = self.before[0] and self.before[0].get(cell) == self.player
        return bool(was_mine) and cell not in self.stones and self.placed(cell) == self.before[0]


class PlainBits:
    def __init__(self, n, rng=None):
        ordered = rng is None
        self.bits = [0 if ordered else int(rng.integers(2)) for _ in range(n)]
        self.goal = [1 if ordered else int(rng.integers(2)) for _ in range(n)]
        self.ordered, self.over = ordered, False

    def mask(self):
        return [
            not self.ordered or bool(bit) or all(self.bits[:i]) for i, bit in enumerate(self.bits)
        ]

    def step(self, action):
        valid = self.mask()[action]
        self.bits[action] ^= valid
        self.over = self.bits == self.goal
        if self.ordered:
            return float(self.over) if valid else -0.5
        return 0.0 if self.over else -1.0

    def obs(self):
        return self.bits + self.goal


class PlainHanoi:
    """Pegs as lists of disks, the largest first."""

    def __init__(self, disks, pegs):
        self.pegs, self.disks, self.over = (
            [[*range(disks)][::-1], *([] for _ in range(pegs - 1))],
            disks,
            False,
        )
        self.moves = [*itertools.permutations(range(pegs), 2)]

    def may(self, source, target):
        a, b = self.pegs[source], self.pegs[target]
        return bool(a) and (not b or a[-1] < b[-1])

    def mask(self):
        return [self.may(*move) for move in self.moves]

    def step(self, action):
        source, target = self.moves[action]
        if not self.may(source, target):
            return -0.25
        self.pegs[target].append(self.pegs[source].pop())
        self.over = len(self.pegs[-1]) == self.disks
        return 3.0 * self.over

    def obs(self):
        return [[disk in peg for peg in self.pegs] for disk in range(self.disks)]


class PlainOctomaze:
    def __init__(self, corridors, length, goal=None):
        self.corridors, self.length, self.goal, self.over = corridors, length, goal, False
        self.at = None  # the hub, else corridor and steps

    def mask(self):
        return [
            not self.over and (self.at is None or self.at[0] == k) for k in range(self.corridors)
        ]

    def step(self, action):
        if self.at is None:
            self.at = (action, 0)
        elif self.at[0] == action:
            self.at = (action, self.at[1] + 1)
        self.over = self.at[1] == self.length
        return float(self.over and self.goal in (None, action))

    def obs(self):
        shown = np.full((self.corridors, self.length), float(self.over))
        if self.at and not self.over:
            shown[self.at] = 1.0
        return shown


class PlainPacking:
    """Bins as a list of what they hold."""

    def __init__(self, rng, capacity=9, sizes=(2, 3), chances=(0.8, 0.2), horizon=1000, scale=1.0):
        self.rng, self.capacity, self.sizes, self.chances = rng, capacity, sizes, chances
        self.horizon = self.left = horizon
        self.bins, self.over, self.scale = [], False, scale
        self.item = self.drawn()

    def drawn(self):
        return int(self.rng.choice(self.sizes, p=self.chances))

    def mask(self):
        fits = [
            k == 0 or (k in self.bins and k + self.item <= self.capacity)
            for k in range(self.capacity)
        ]
        return [fit and not self.over for fit in fits]

    def step(self, action):
        before = self.waste()
        if action > 0 and self.mask()[action]:
            self.bins.remove(action)
            self.bins.append(action + self.item)
        else:
            self.bins.append(self.item)
        self.left -= 1
        self.over = self.left == 0
        self.item = self.drawn()
        return self.scale * (before - self.waste())

    def waste(self):
        return sum(self.capacity - held for held in self.bins)

    def obs(self):
        counts = [self.bins.count(k) for k in range(self.capacity)]
        return np.array([*counts, self.item], np.float32)


class PlainCube:
    """Stickers on their places in space, and turns as matrices."""

    AXES = ((0, 0, 1), (0, 0, -1), (0, -1, 0), (0, 1, 0), (1, 0, 0), (-1, 0, 0))

    def __init__(self, rng, n=3, scramble=100, reward="step", colours=range(6), smart=True):
        self.n, self.reward, self.over, self.size = n, reward, False, n // 2 * 12
        self.turns = []
        for axis in map(np.array, self.AXES):
            # Rodrigues' formula for a quarter: clockwise from outside is against the axis.
            x, y, z = axis
            cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            for level, sign in itertools.product(range(n // 2), (-1, 1)):
                matrix = np.outer(axis, axis) + sign * cross
                self.turns.append((axis, n - 1 - 2 * level, matrix))
        span = range(1 - n, n, 2)
        self.places = [
            (place, axis)
            for axis in self.AXES
            for place in itertools.product(span, repeat=3)
            if np.dot(place, axis) == n - 1
        ]
        self.solved = {
            (place, axis): colour
            for colour, face in zip(colours, self.AXES, strict=True)
            for place, axis in self.places
            if axis == face
        }
        self.stickers, self.count = dict(self.solved), max(colours) + 1
        while self.is_solved():
            drawn = []
            while len(drawn) < scramble:
                turn = int(rng.integers(self.size))
                undoes = drawn and turn != drawn[-1] and turn // 2 == drawn[-1] // 2
                fourth = len(drawn) > 2 and drawn[-3:] == [turn] * 3
                if smart and (undoes or fourth):
                    continue
                drawn.append(turn)
                self.turn(turn)

    def turn(self, number):
        axis, layer, matrix = self.turns[number]

        def moved(vector):
            return tuple(int(v) for v in matrix @ vector)

        self.stickers = {
            (moved(p), moved(f)) if np.dot(p, axis) == layer else (p, f): colour
            for (p, f), colour in self.stickers.items()
        }

    def is_solved(self):
        faces = [{c for (_, f), c in self.stickers.items() if f == face} for face in self.AXES]
        return all(len(face) == 1 for face in faces)

    def step(self, action):
        self.turn(action)
        self.over = self.is_solved()
        right = [self.stickers[place] == colour for place, colour in self.solved.items()]
        kinds = {"step": self.over - 1.0, "solved": float(self.over)}
        return kinds.get(self.reward, sum(right) / len(right))

    def obs(self):
        colours = [self.stickers[place] for place in self.places]
        return np.eye(self.count)[colours].reshape(6, self.n, self.n, self.count)


class PlainGrid:
    def __init__(self, lines, room, lives=1, trap_reward=0.0):
        self.cells = {(r, c): sign for r, line in enumerate(lines) for c, sign in enumerate(line)}
        self.at = self.entered = next(at for at, sign in self.cells.items() if sign == "@")
        self.cells[self.at] = "."
        self.room, self.lives, self.trap_reward, self.keys = room, lives, trap_reward, 0
        self.across, self.over = len(lines[0]) // room[1], False

    def room_of(self, cell):
        return cell[0] // self.room[0], cell[1] // self.room[1]

    def step(self, action):
        down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[action]
        to = self.at[0] + down, self.at[1] + right
        sign, reward = self.cells.get(to, "#"), 0.0
        if sign == "b" and self.cells.get((to[0] + down, to[1] + right)) == ".":
            self.cells[to], self.cells[to[0] + down, to[1] + right] = ".", "b"
            sign = "."
        if sign == "x":
            self.lives -= 1
            self.over, reward = self.lives == 0, self.trap_reward
            self.at = self.at if self.over else self.entered
        elif sign in ".k$" or (sign == "D" and self.keys > 0):
            self.entered = to if self.room_of(to) != self.room_of(self.at) else self.entered
            self.at, self.cells[to] = to, "."
            self.keys += {"k": 1, "D": -1}.get(sign, 0)
            reward = float(sign == "$")
            self.over = "$" not in self.cells.values()
        return reward

    def obs(self):
        shown, room = {**self.cells, self.at: "@"}, self.room_of(self.at)
        cells = [".#kDx$@b".index(s) for at, s in sorted(shown.items()) if self.room_of(at) == room]
        return [*cells, room[0] * self.across + room[1], self.keys, self.lives]
