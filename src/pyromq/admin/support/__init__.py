"""The debug bundle: `bundle` collects what is known about a cluster and this machine, `secrets` removes secrets."""
