"""Two strategies on one problem from five seeds each, kept in a database: the median of the best value after 20 trials.

`tune compare` does this with CPU clocks, budgets in seconds and paired tests.
"""

from statistics import median

from kilotune import load_study, tune

SEEDS = range(5)
STRATEGIES = ("local", "random")

if __name__ == "__main__":
    for strategy in STRATEGIES:
        for seed in SEEDS:
            tune(
                "memory",
                strategy=strategy,
                seed=seed,
                budget="20trials",
                study=f"{strategy}-{seed}",
                storage="comparison.db",
                progress=False,
            )
    for strategy in STRATEGIES:
        studies = [load_study(f"{strategy}-{seed}", "comparison.db") for seed in SEEDS]
        print(strategy, median(study.best.metrics["peak_bytes"] for study in studies), "bytes")
