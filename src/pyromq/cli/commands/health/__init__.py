"""The verbs that tell how a cluster is doing: `doctor`, `top`, `check` and `debug`."""
