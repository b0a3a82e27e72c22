"""The pages of browsers: templates, their style sheet and icons, and the module that renders them.

A feature hands over a Page, the name of a template and its values; markup is in the templates alone.
"""
