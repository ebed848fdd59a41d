"""The status page: one read-only page of the HTTP server, for people with a browser.

`flipop_core.runtime.overview` tells what the resources say of themselves, `model` chooses what of it is shown and in
which words, `render` makes HTML of that, and `app` answers requests.
"""
