"""The documentation site: `make docs` builds it with mkdocs from the pages of `docs/` and from the code.

    hooks           what mkdocs calls: puts the other parts together
    pages           which page stands where, and links that work in the repository and on the site
    configuration   the tables of keys in docs/configuration.md, from the tables that the servers read
    commands        a page for each verb of `pyromq`, from its help
    api             pages of the public names, from their docstrings

`docs/*.md` are meant to be read in the repository as well, so nothing in them is special to the site.
"""
