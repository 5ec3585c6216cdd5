"""User objects: program data that lives as long as the program or a graph refers to it."""

from __future__ import annotations

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.driver_state import state
from warpwright.driver.graphs import Graph, UserObject

_MOVE = 1
"""CU_GRAPH_USER_OBJECT_MOVE: the caller's references become the graph's."""


@entry("cuUserObjectCreate")
def create(place: int, data: int, destroy: int, references: int, flags: int) -> int | None:
    if not destroy or references < 1:
        return results.INVALID_VALUE
    made = UserObject(data, destroy, references)
    made.handle = state().handles.add(made)
    cmemory.put64(place, made.handle)
    return None


@entry("cuUserObjectRetain")
def retain(handle: int, count: int) -> None:
    state().handles.get(UserObject, handle).retain(count)


@entry("cuUserObjectRelease")
def release(handle: int, count: int) -> None:
    state().handles.get(UserObject, handle).release(count)


@entry("cuGraphRetainUserObject")
def graph_retain(graph: int, handle: int, count: int, flags: int) -> None:
    user = state().handles.get(UserObject, handle)
    if not flags & _MOVE:
        user.retain(count)
    state().handles.get(Graph, graph).users += [user] * count


@entry("cuGraphReleaseUserObject")
def graph_release(graph: int, handle: int, count: int) -> int | None:
    user = state().handles.get(UserObject, handle)
    users = state().handles.get(Graph, graph).users
    if users.count(user) < count:
        return results.INVALID_VALUE
    for _ in range(count):
        users.remove(user)
    user.release(count)
    return None
