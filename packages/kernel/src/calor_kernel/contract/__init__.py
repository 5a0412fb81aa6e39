"""What a kernel family hands to the planner: views, launches, device description and costs."""
