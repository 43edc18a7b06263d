"""Checks of what a fit takes for granted about its data; their findings are advice in words."""
