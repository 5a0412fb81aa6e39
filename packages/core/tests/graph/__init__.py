"""Tests of graphs and their passes."""
