"""From a graph to launches: views, the covering by work, memory by liveness, and the plan."""
