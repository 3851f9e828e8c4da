"""Simulated devices for rehearsals: a switch's command line, a BMC's Redfish, an array's REST.

They answer from a state that is data (`simulate.state`), healthy unless a fault is planted, on
loopback only, and say in every answer that they are simulated.
"""
