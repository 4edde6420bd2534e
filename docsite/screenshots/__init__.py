"""Pictures of the console for the documentation: `python -m docsite.screenshots`.

sample_shop   a cluster with traffic that looks like a small shop's, and its console
__main__      opens each screen in Chromium and takes its picture
"""
