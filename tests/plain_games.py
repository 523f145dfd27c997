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
        """Whose a point is at the end, None if nobody's."""
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
