"""The admin pages, a module for each noun; they stand above the apps that they show."""
