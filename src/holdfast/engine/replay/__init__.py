"""Replaying one trial against its record: does its solver still ask for what it has asked for?"""
