"""Which piece of a graph is wrong: cut every computing instruction out, judge each alone, rank what is wrong."""
