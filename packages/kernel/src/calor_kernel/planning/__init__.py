"""From a graph to launches: views, covering, memory layout by liveness, and the plan."""
