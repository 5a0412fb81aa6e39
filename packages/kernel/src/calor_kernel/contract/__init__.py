"""The interface of kernel families to the planner: views, launches, device info and costs."""
