"""Verbs about this machine alone: `config check`, `context`, `completion`. None of them asks a cluster."""
