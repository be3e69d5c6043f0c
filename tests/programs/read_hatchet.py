"""What Hatchet makes of two exports: by call path, the figures of its function with its lines, and with callees."""

import contextlib
import io
import json
import sys


def by_path(frame):
    """Sums of the own figures of each function and the lines below it; figures with callees as they are."""
    rows = {}

    def visit(node, above):
        is_function = node.frame.get("type") == "function"
        path = above + [node.frame.get("name")] if is_function else above
        data = frame.dataframe.loc[node]
        data = data.iloc[0] if hasattr(data, "iloc") and data.ndim > 1 else data
        row = rows.setdefault(" > ".join(path), {})
        for name in frame.exc_metrics:
            row[name] = row.get(name, 0) + float(data[name])
        if is_function:
            row.update((name, float(data[name])) for name in frame.inc_metrics)
        for child in node.children:
            visit(child, path)

    for root in frame.graph.roots:
        visit(root, [])
    return rows


with contextlib.redirect_stdout(io.StringIO()):
    import hatchet

    with open("hatchet") as file:
        literal = hatchet.GraphFrame.from_literal(json.load(file))
    database = hatchet.GraphFrame.from_hpctoolkit("hpctoolkit")
    read = {"literal": by_path(literal), "hpctoolkit": by_path(database)}
json.dump(read, sys.stdout)
