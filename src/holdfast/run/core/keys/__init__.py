"""No key is written into a run: records lose the keys that they hold, and what a run is made of is refused with one."""
