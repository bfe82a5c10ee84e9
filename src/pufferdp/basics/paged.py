"""Results that have a page: a notebook shows them in brief."""

from __future__ import annotations


class Paged:
    """A plan, a release, a series, a flow, an audit or a certificate."""

    def _repr_html_(self) -> str:
        from pufferdp.report.html import page_html

        return page_html(self)
