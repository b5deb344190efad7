"""Small results: figures with every verdict, a group, further numbers, and a theme that failed."""

from benchmarks.figures import ThemeResults, figure_of_rounds
from benchmarks.results import ClusterSize, Machine, Results, ScaleResults

RESULTS = Results(
    date="2026-11-24",
    commit="0123456789ab",
    machine=Machine(processor="Example CPU", cores=2, memory_gib=8, system="Linux x86_64"),
    python="3.11.7",
    kubernetes="sandbox",
    seconds=600,
    themes=(
        ThemeResults(
            name="calls",
            title="Calls",
            text="CPU time of one call & its <control>.",
            seconds=12.5,
            figures=(
                figure_of_rounds("converted pod", [(300, 150)], unit="µs", beside="bare handler", aim=2.0, limit=3.0),
                figure_of_rounds("claim", [(375, 150)], unit="µs", beside="bare handler", aim=2.0, limit=3.0),
                figure_of_rounds("selector < 1", [(600, 150)], unit="µs", beside="bare handler", aim=2.0, limit=3.0),
            ),
        ),
        ThemeResults(
            name="clients",
            title="10 to 50 clients",
            text="Requests of clients without a pause.",
            charts=("requests/s",),
            seconds=60.0,
            figures=tuple(
                figure_of_rounds(
                    name,
                    [(per_request, 500)],
                    group=f"{clients} clients",
                    unit="µs per request",
                    beside="bare handler",
                    aim=2.0,
                    limit=3.0,
                    more={"requests/s": (1e6 / per_request, 2000.0), "memory in MiB": (80.0, None)},
                )
                for clients in (10, 50)
                for name, per_request in (("converted pod", 900), ("checked pod", 800))
            ),
        ),
        ThemeResults(name="quotas", title="Quotas", text="Pods per second.", seconds=1.0, figures=()),
    ),
)
SCALE = ScaleResults(
    date="2026-11-30",
    commit="0123456789ab",
    machine=RESULTS.machine,
    sizes=tuple(
        ClusterSize(
            nodes=nodes,
            gpus=nodes * 8,
            pods=nodes * 20,
            ready_cpu_s=nodes / 200,
            ready_mib=100 + nodes / 25,
            most_mib=120 + nodes / 25,
            converted_p50_ms=0.9,
            converted_p99_ms=1.25,
            claim_p50_ms=0.7,
            claim_p99_ms=1,
            changes_per_second=changes,
            steady_percent=14,
            explain_cpu_s=nodes / 5000,
            audit_cpu_s=nodes / 500,
        )
        for nodes, changes in ((100, 75), (1000, 80))
    ),
)
