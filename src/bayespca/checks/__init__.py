"""What a fit cannot know of its data: checks of what it takes for granted, in words."""
