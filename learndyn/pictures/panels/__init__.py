"""The parts of pictures of sweeps: axes (`places.py`), values (`readings.py`), marks, and the kinds of panels."""
