"""Delta rule for the select list: project the change."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Plan, Project, output


def project(node: Project, change: Plan) -> Plan:
    """Return the change of `node`.

    d(project_e(R)) = project_e(dR)

    Duplicates are kept, so weights need not be added up here.
    """
    return Empty(output(node)) if isinstance(change, Empty) else Project(change, node.columns)
