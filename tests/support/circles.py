"""Circles in a graph of what uses what."""


def circles(graph):
    """The sets of two or more nodes that all reach each other, sorted (Tarjan's algorithm).
    graph: {node: the nodes that it uses}. A node that is used but not listed uses nothing."""
    number, low, path, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        path.append(node)
        for used in sorted(graph.get(node, ())):
            if used not in number:
                visit(used)
                low[node] = min(low[node], low[used])
            elif used in path:
                low[node] = min(low[node], number[used])
        if low[node] == number[node]:
            at = path.index(node)
            if len(path) - at > 1:
                found.append(sorted(path[at:]))
            del path[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found)
