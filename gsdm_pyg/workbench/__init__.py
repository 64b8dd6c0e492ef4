"""The workbench: a page on localhost that shows a model at work.

A `Subject` is what the page shows. `server` answers the page, one request per module:
`description` and `graph_view` say what there is, `values` reads what the user typed,
`jobs` runs the network for one request after the other, `frames` writes its estimates,
and `training_log` follows a run. `guards` refuses requests of other pages.
"""
