"""MCP servers as child processes that speak over their standard streams.

From the inside out:

=====================  ===============================================================
:mod:`~.output`        the lines of an output, and the tail of another
:mod:`~.process`       the process, with its pipes and its reduced environment
:mod:`~.channel`       one thread that moves all bytes between the pipes and callers
:mod:`~.probe`         which era the server speaks, found without a restart
:mod:`~.connection`    all of it as a connection
=====================  ===============================================================
"""
