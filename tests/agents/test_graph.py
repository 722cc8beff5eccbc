"""Who hears whom, for every topology and size, and which role sits where."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.agents.graph import DECISION, MAX_WORKERS, TOPOLOGIES, assign_roles, build_graph
from bcrbench.errors import UserError

SIZES = range(1, MAX_WORKERS + 1)
EVERY_GRAPH = [(topology, workers) for topology in TOPOLOGIES.names() for workers in SIZES]
ROLES = st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True)


def graph(topology, workers):
    """A graph whose roles are its ids."""
    return build_graph(topology, workers, [f"role {i + 1}" for i in range(workers)], "judge")


def hears(topology, workers):
    """Whom each worker hears, by id."""
    return {agent.id: list(agent.hears) for agent in graph(topology, workers) if not agent.decides}


def test_the_four_topologies_are_known():
    assert TOPOLOGIES.names() == ["chain", "full", "layered", "star"]


@pytest.mark.parametrize(("topology", "workers"), EVERY_GRAPH)
def test_agents_run_in_order_and_hear_only_who_ran_before(topology, workers):
    """Acyclic by position: every predecessor stands earlier in the running order."""
    ran = []
    for agent in graph(topology, workers):
        assert set(agent.hears) <= set(ran)
        assert list(agent.hears) == sorted(set(agent.hears), key=int)
        ran.append(agent.id)
    assert ran == [*map(str, range(1, workers + 1)), DECISION]


@pytest.mark.parametrize(("topology", "workers"), EVERY_GRAPH)
def test_the_deciding_node_comes_last_and_hears_all(topology, workers):
    *others, last = graph(topology, workers)
    assert last.decides and last.role == "judge"
    assert list(last.hears) == [other.id for other in others]
    assert not any(other.decides for other in others)


@pytest.mark.parametrize(("topology", "workers"), EVERY_GRAPH)
def test_roles_sit_where_they_are_put(topology, workers):
    assert [agent.role for agent in graph(topology, workers)][:-1] == [f"role {i + 1}" for i in range(workers)]


@pytest.mark.parametrize("workers", SIZES)
def test_full_is_every_pair_and_chain_every_neighbour(workers):
    assert sum(map(len, hears("full", workers).values())) == workers * (workers - 1) // 2
    assert hears("chain", workers) == {str(i): [str(i - 1)] if i > 1 else [] for i in range(1, workers + 1)}


@pytest.mark.parametrize("workers", SIZES)
def test_star_is_one_hub(workers):
    spokes = hears("star", workers)
    assert spokes.pop("1") == []
    assert all(heard == ["1"] for heard in spokes.values())


@pytest.mark.parametrize("workers", SIZES)
def test_layers_hear_the_whole_layer_before_and_nobody_else(workers):
    """Workers that hear the same ones form a layer; what they hear is exactly the layer before."""
    layers = []
    for worker, heard in hears("layered", workers).items():
        if not layers or layers[-1][1] != heard:
            layers.append(([], heard))
        layers[-1][0].append(worker)
    assert layers[0][1] == []
    for (before, _), (_, heard) in pairwise(layers):
        assert heard == before
    widths = [len(members) for members, _ in layers]
    assert all(width == widths[0] for width in widths[:-1]) and widths[-1] <= widths[0]


def test_layered_by_hand():
    assert hears("layered", 5) == {"1": [], "2": [], "3": [], "4": ["1", "2", "3"], "5": ["1", "2", "3"]}
    assert hears("layered", 4) == {"1": [], "2": [], "3": ["1", "2"], "4": ["1", "2"]}


@pytest.mark.parametrize("workers", [-1, 0, MAX_WORKERS + 1])
def test_other_sizes_are_refused(workers):
    with pytest.raises(UserError, match=f"--agents {workers}: expected 1 to {MAX_WORKERS}"):
        build_graph("full", workers, ["role"] * max(workers, 0), "judge")


@pytest.mark.parametrize(
    ("typed", "meant"), [("fulll", "full"), ("chian", "chain"), ("layer", "layered"), ("start", "star")]
)
def test_an_unknown_topology_gets_the_nearest_name(typed, meant):
    with pytest.raises(UserError, match=f"unknown topology '{typed}' .did you mean '{meant}'"):
        build_graph(typed, 2, ["a", "b"], "judge")


@given(ROLES, st.sampled_from(SIZES))
def test_cycling_starts_at_the_first_role_every_time(roles, workers):
    """The release's cycle went on from graph to graph."""
    first = assign_roles("cycle", roles, workers)
    assert first == assign_roles("cycle", roles, workers)
    assert first == (roles * workers)[:workers]


@given(ROLES, st.sampled_from(SIZES), st.data())
def test_pinning_gives_every_worker_the_role(roles, workers, data):
    role = data.draw(st.sampled_from(roles))
    assert assign_roles(f"pin:{role}", roles, workers) == [role] * workers


def test_an_unknown_role_gets_the_nearest_name():
    with pytest.raises(UserError, match="unknown role 'Inspecter' .did you mean 'Inspector'"):
        assign_roles("pin:Inspecter", ["Math Solver", "Inspector"], 3)


@pytest.mark.parametrize("spec", ["", "cycles", "pin", "Inspector", "pins:Inspector"])
def test_other_role_specs_are_refused(spec):
    with pytest.raises(UserError, match="expected 'cycle' or 'pin:ROLE'|unknown role"):
        assign_roles(spec, ["Inspector"], 3)
