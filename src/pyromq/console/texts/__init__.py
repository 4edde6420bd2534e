"""The texts of the console in other languages: `catalog` finds them, zh/ holds the Chinese ones, a file a screen.

A text is its own key: `t("Topics")` is "Topics" in English. tests/console/test_texts.py finds every text in templates
and modules and wants each of them translated.
"""
