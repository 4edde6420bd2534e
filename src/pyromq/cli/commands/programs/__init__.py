"""The verbs about programs that users write: pipelines, and Apps that are run and described."""
