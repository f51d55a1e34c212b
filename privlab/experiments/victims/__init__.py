"""What experiments of several labs attack: shadow fleets, private people, batches of photographs, designs."""
