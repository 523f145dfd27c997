"""What others score in 49 Atari games: Rollout-IW, people, and random play."""

from __future__ import annotations

from typing import NamedTuple


class Anchor(NamedTuple):
    """Scores of one game.

    Attributes:
        published: of Rollout-IW at 0.5 s a decision, mean of 5 runs: the table of its authors
            (Bandres, Bonet & Geffner 2018).
        human: of a person (Mnih et al. 2015).
        random: of random play (same source).
    """

    published: float
    human: float
    random: float

    def normalised(self, score: float) -> float:
        """0 for random play, 1 for a person."""
        return (score - self.random) / (self.human - self.random)


ANCHORS = {
    "Alien": Anchor(8550, 6875, 227.8),
    "Amidar": Anchor(1161, 1676, 5.8),
    "Assault": Anchor(264.6, 1496, 224.4),
    "Asterix": Anchor(48_700, 8503, 210),
    "Asteroids": Anchor(4486, 13_157, 719.1),
    "Atlantis": Anchor(113_460, 29_028, 12_850),
    "BankHeist": Anchor(268, 734.4, 14.2),
    "BattleZone": Anchor(56_200, 37_800, 2360),
    "BeamRider": Anchor(3729.2, 5775, 363.9),
    "Bowling": Anchor(51.6, 154.8, 23.1),
    "Boxing": Anchor(78.6, 4.3, 0.1),
    "Breakout": Anchor(79.8, 31.8, 1.7),
    "Centipede": Anchor(46_661.4, 11_963, 2091),
    "ChopperCommand": Anchor(8900, 9882, 811),
    "CrazyClimber": Anchor(38_120, 35_411, 10_781),
    "DemonAttack": Anchor(5201, 3401, 152.1),
    "DoubleDunk": Anchor(-4, -15.5, -18.6),
    "Enduro": Anchor(137.4, 309.6, 0),
    "FishingDerby": Anchor(-61.8, 5.5, -91.7),
    "Freeway": Anchor(3.6, 29.6, 0),
    "Frostbite": Anchor(1494, 4335, 65.2),
    "Gopher": Anchor(7256, 2321, 257.6),
    "Gravitar": Anchor(2410, 2672, 173),
    "Hero": Anchor(11_480, 25_673, 1027),
    "IceHockey": Anchor(5.2, 0.9, -11.2),
    "Jamesbond": Anchor(5340, 406.7, 29),
    "Kangaroo": Anchor(1800, 3035, 52),
    "Krull": Anchor(1645.2, 2395, 1598),
    "KungFuMaster": Anchor(2980, 22_736, 258.5),
    "MontezumaRevenge": Anchor(100, 4367, 0),
    "MsPacman": Anchor(13_746.8, 15_693, 307.3),
    "NameThisGame": Anchor(6128, 4076, 2292),
    "Pong": Anchor(-1.4, 9.3, -20.7),
    "PrivateEye": Anchor(2160, 69_571, 24.9),
    "Qbert": Anchor(14_160, 13_455, 163.9),
    "Riverraid": Anchor(7138, 13_513, 1339),
    "RoadRunner": Anchor(25_780, 7845, 11.5),
    "Robotank": Anchor(30, 11.9, 2.2),
    "Seaquest": Anchor(1236, 20_182, 68.4),
    "SpaceInvaders": Anchor(1812, 1652, 148),
    "StarGunner": Anchor(15_960, 10_250, 664),
    "Tennis": Anchor(3.2, -8.9, -23.8),
    "TimePilot": Anchor(8540, 5925, 3568),
    "Tutankham": Anchor(147.4, 167.7, 11.4),
    "UpNDown": Anchor(36_936, 9082, 533.4),
    "Venture": Anchor(80, 1188, 0),
    "VideoPinball": Anchor(188_604.4, 17_298, 16_257),
    "WizardOfWor": Anchor(40_780, 4757, 563.5),
    "Zaxxon": Anchor(18_700, 9173, 32.5),
}

#: Scores of Rollout-IW at 32 s a decision, of the same table: 64 times the calls of 0.5 s.
AT_32_SECONDS = {
    "Pong": 18.0,
    "Breakout": 370.0,
    "MsPacman": 21_800.0,
    "Freeway": 10.0,
    "Seaquest": 9800.0,
    "SpaceInvaders": 4400.0,
}
