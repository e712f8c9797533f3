"""Everything on this machine: an embedded broker and cache, and a worker, started and stopped by a tool."""
