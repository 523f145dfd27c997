"""Items: rows with a variable number of points as tensors, and layers over them."""

from __future__ import annotations

import math
from typing import Any, final

from plangym_ext.arrays import JaggedArray
from plangym_ext.arrays.nested import as_tensor
from plangym_ext.learn.networks.bodies import ACTIVATION_LAYERS, dense_layers
from plangym_ext.learn.networks.config import NetworkConfig
from plangym_ext.learn.torch_extra import nn, torch

#: Products of a multiple of so many points add alike, however many there are; and, with at least 16
#: features, wherever a point lies.
_FILLED = 16
_HEADS = 4


@final
class Items:
    """Points of rows `[*lead]`, which are indexed as a tensor `[*lead, ...]`; points stay in place.

    Args:
        points: `[P, *feature]`, of all rows, in any order.
        start: `[*lead]` int64, number of a row's first point.
        length: `[*lead]` int64, points of a row.
    """

    def __init__(self, points: Any, start: Any, length: Any) -> None:
        self.points, self.start, self.length = points, start, length

    @classmethod
    def of(cls, array: JaggedArray, more: int = 0) -> Items:
        """Return a copy of the items of a jagged array, and `more` rows without any after them."""
        found = array.to_ndarray()
        ptr = as_tensor(found["ptr"])
        start, length = (torch.cat([part, part.new_zeros(more)]) for part in (ptr[:-1], ptr.diff()))
        lead = (-1, *array.batch_shape[1:])
        return cls(as_tensor(found["pos"]), start.reshape(lead), length.reshape(lead))

    @property
    def shape(self) -> Any:
        """`lead`."""
        return self.start.shape

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: Any) -> Items:
        return Items(self.points, self.start[index], self.length[index])

    def flatten(self, first: int, last: int) -> Items:
        """Return the rows with some axes joined."""
        return Items(self.points, self.start.flatten(first, last), self.length.flatten(first, last))

    def index_select(self, axis: int, index: Any) -> Items:
        """Return some rows along an axis."""
        start, length = (part.index_select(axis, index) for part in (self.start, self.length))
        return Items(self.points, start, length)

    def to(self, device: Any) -> Items:
        """Return the items on a device."""
        return Items(*(part.to(device) for part in (self.points, self.start, self.length)))

    def places(self) -> tuple[Any, Any]:
        """Return the positions `[P]` int64 of the points of N rows, and the row `[P]` of each.

        After them at least one point, up to a multiple of 16, belongs to row N: place 0.
        """
        owner = torch.arange(len(self), device=self.start.device).repeat_interleave(self.length)
        first = (self.length.cumsum(0) - self.length).repeat_interleave(self.length)
        place = self.start[owner] + torch.arange(len(owner), device=owner.device) - first
        more = _FILLED - len(owner) % _FILLED
        filled = owner.new_zeros(more)
        return torch.cat([place, filled]), torch.cat([owner, filled + len(self)])

    def gathered(self) -> tuple[Any, Any]:
        """Return the points `[P, *feature]` of N rows and their rows `[P]`; see `places`."""
        place, owner = self.places()
        if not len(self.points):
            return self.points.new_zeros(len(place), *self.points.shape[1:]), owner
        return self.points[place], owner


def added(x: Any, owner: Any, count: int) -> Any:
    """Return `[count, F]`, sums of the points `[P, F]` of each owner."""
    return x.new_zeros(count, *x.shape[1:]).index_add(0, owner, x)


def largest(x: Any, owner: Any, count: int) -> Any:
    """Return `[count, F]`, the largest of the points of each owner; 0 for none."""
    index = owner[:, None].expand_as(x)
    return x.new_zeros(count, x.shape[1]).scatter_reduce(0, index, x, "amax", include_self=False)


class Exchange(nn.Module):
    """Adds messages of other points to each point: their mean, or weighted by attention.

    Args:
        width: features of a point.
        told: further features of a pair.
        attends: whether messages are weighted by attention.
        activation: after the layer over what a point is told.
    """

    def __init__(self, width: int, told: int, attends: bool, activation: nn.Module) -> None:
        super().__init__()
        self._heads = math.gcd(width, _HEADS)
        self.message = nn.Linear(width + told, width, dtype=torch.float32)
        self.key = nn.Linear(width + told, width, dtype=torch.float32) if attends else None
        self.query = nn.Linear(width, width, dtype=torch.float32) if attends else None
        self.joined = nn.Linear(2 * width, width, dtype=torch.float32)
        self.activation = activation

    def forward(self, x: Any, source: Any, target: Any, more: Any = None) -> Any:
        """Return `[P, width]`.

        Args:
            x: `[P, width]`.
            source: `[Q]` int64, the point that tells.
            target: `[Q]` int64, the point that is told.
            more: `[Q, told]`, what else is known of a pair.
        """
        said = x[source] if more is None else torch.cat([x[source], more], dim=1)
        message, count = self.message(said), len(x)
        if self.key is not None and self.query is not None:
            shape = len(said), self._heads, -1
            score = (self.key(said) * self.query(x)[target]).view(shape).sum(2)
            score = score / math.sqrt(x.shape[1] / self._heads)
            # Less the largest: an exponential of a large score would overflow.
            raised = (score - largest(score, target, count)[target].detach()).exp()
            weight = raised / added(raised, target, count)[target]
            total = added((message.view(shape) * weight[..., None]).flatten(1), target, count)
        else:
            number = added(torch.ones_like(message[:, :1]), target, count)
            total = added(message, target, count) / number.clamp(min=1.0)
        return x + self.activation(self.joined(torch.cat([x, total], dim=1)))


class ItemsEncoder(nn.Module):
    """Encodes a row's items as a vector: the mean and maximum of the features of all items.

    Items of a Sequence are encoded by themselves; with "attention" each is told of all others of
    its row. Nodes of a Graph get messages from the nodes with an edge to them. Nothing is padded:
    the items of all rows are one batch.

    Args:
        points: encoder of single items, such as an `ObservationEncoder`.
        config: `items`, `items_size` and the activation count.
        graph: whether rows are graphs.
        edges: encoder of single edges; None: there are none.

    Attributes:
        shape: `(F,)`, of a row.

    Source: Zaheer et al. 2017, "Deep sets"; Lee et al. 2019, "Set transformer"; Velickovic et al.
    2018, "Graph attention networks".
    """

    def __init__(
        self, points: Any, config: NetworkConfig, *, graph: bool = False, edges: Any = None
    ) -> None:
        super().__init__()
        width, attends = config.items_size, config.items == "attention"
        self._is_graph, self.shape = graph, (2 * width + 1,)
        self.points, self.edges = points, edges
        layers, _ = dense_layers(math.prod(points.shape), (width, width), config)
        self.items = nn.Sequential(*layers)
        self.exchange: Exchange | None = None
        if attends or edges is not None:
            told = 0 if edges is None else math.prod(edges.shape)
            self.exchange = Exchange(width, told, attends, ACTIVATION_LAYERS[config.activation]())

    def laid_out(self, rows: Any) -> Any:
        """Return the rows as they are; see `ObservationEncoder.laid_out`."""
        return rows

    def forward(self, rows: Any) -> torch.Tensor:
        """Return `[N, F]` of `Items` `[N]`, of a graph of those of its parts by name."""
        nodes: Items = rows["nodes"] if self._is_graph else rows
        points, owner = nodes.gathered()
        x = self.items(self.points(points).flatten(1))
        if self.exchange is not None:
            x = self.exchange(x, *self._pairs(rows, nodes, owner))
        length = nodes.length[:, None].to(x.dtype)
        mean = added(x, owner, len(nodes) + 1)[:-1] / length.clamp(min=1.0)
        return torch.cat([mean, largest(x, owner, len(nodes) + 1)[:-1], length.log1p()], dim=1)

    def _pairs(self, rows: Any, nodes: Items, owner: Any) -> tuple[Any, Any, Any]:
        """Return `[P]` which item is told of which, and `[P, E]` what more it is told.

        The last of the items that `gathered` returned belongs to no row, and is told of itself.
        """
        spare, first = len(owner) - 1, nodes.length.cumsum(0) - nodes.length
        if self.edges is None:
            # A pair for each two items of a row: as many as it has items begin with each item.
            count = nodes.length.repeat_interleave(nodes.length)
            pairs = Items(owner, first.repeat_interleave(nodes.length), count)
            index, told = pairs.places()
            source = torch.where(told < len(count), index, spare)
            return source, told.where(told < len(count), spare), None
        edges, whose = rows["edges"].gathered()
        links, _ = rows["edge_links"].gathered()
        shifted = links + torch.cat([first, first.new_zeros(1)])[whose][:, None]
        ends = shifted.where((whose < len(nodes))[:, None], spare)
        return ends[:, 0], ends[:, 1], self.edges(edges).flatten(1)
